"""The way of values through a device's places."""

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic.devices.array import SimulatedArray, plain_array, simulate_array
from precreg.arithmetic.devices.computation import cast_through_device
from precreg.arithmetic.devices.device import Device, StorageCast, device_named
from precreg.arithmetic.faults.fault import ArithmeticLayer
from precreg.arithmetic.formats import Format
from precreg.errors import UserError
from tests.arithmetic.devices.on_devices import device, on, same_bits

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
X = np.array([1.12156456132, -65520.0, 1e-8, 1e-40, np.pi], np.float32)


def test_every_place_holds_what_came_from_the_one_before():
    places = cast_through_device(X, "ascend")
    assert {place: values.dtype.name for place, values in places.items()} == {
        "host": "float32",
        "device_memory": "float32",
        "L1": "float16",
        "L0": "float16",
    }
    assert same_bits(places["device_memory"], X)
    with np.errstate(over="ignore"):
        assert same_bits(places["L1"], X.astype(np.float16))
    assert same_bits(places["L0"], places["L1"])


def test_formats_without_a_dtype_rest_in_a_wider_one():
    register = cast_through_device(X, "mlu370")["register"]
    assert register.dtype == np.float32
    assert same_bits(register, (X.view(np.uint32) & 0xFFFFFFF8).view(np.float32) * (np.abs(X) >= 2**-126))
    assert cast_through_device(X, "gpu-tf32")["tensor_core"][4] == np.float32(3.140625)


def test_a_wide_format_keeps_its_largest_number():
    wide = Format("wide", 40, -126, 2.0**8 - 2.0**-32, overflow=2.0**8 - 2.0**-32)
    device = Device("wide", storage_casts=(StorageCast("buffer", wide, None),))
    assert cast_through_device(X, device)["buffer"][1] == -wide.largest


def test_a_simulated_array_travels_on_its_own_device():
    places = cast_through_device(on("mlu370", X))
    assert all(type(values) is SimulatedArray for values in places.values())
    assert same_bits(places["register"], cast_through_device(X, device_named("mlu370"))["register"])


class Wrong(ArithmeticLayer):
    """Converts with a mistake."""

    def cast(self, values, dtype):
        return super().cast(values, dtype) * dtype.type(2)


def test_a_fault_of_casts_shows_at_its_hop():
    places = cast_through_device(simulate_array(X, Wrong(device("ascend"))))
    assert same_bits(places["device_memory"], X)
    assert plain_array(places["L1"])[4] == 2 * X[4].astype(np.float16)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_it_begins_with_any_dtype(dtype):
    assert cast_through_device(X[:1].astype(dtype), "gpu-tf32")["host"].dtype == np.float32


def test_an_array_without_a_device_needs_one():
    with pytest.raises(ValueError, match="expected the name of a device"):
        cast_through_device(X)
    with pytest.raises(UserError, match="asend"):
        cast_through_device(X, "asend")
    with pytest.raises(ValueError, match="expected a device with hops but got device=cpu"):
        cast_through_device(on("cpu", X))
