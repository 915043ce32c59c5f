"""The table is sound: every alteration is there, and the kinds of error that are known from devices are all in it."""

import pytest

from precreg.arithmetic.devices.array import NumpyArithmetic
from precreg.arithmetic.faults.planting import INPUTS, OPERATIONS, PARAMS, plant_fault
from precreg.arithmetic.faults.table import FAULTS, HARMLESS_CHANGES, fault_named
from precreg.errors import UserError

KINDS = {
    "type conversion",
    "naive accumulation",
    "stale buffer",
    "misaligned tail",
    "narrow accumulator",
    "truncation",
    "flush",
    "dropped epsilon",
    "moved epsilon",
    "swapped order",
    "fewer polynomial terms",
    "fewer Newton steps",
    "double rounding",
    "swallowed NaN",
    "saturation",
}


def test_every_kind_of_error_has_a_fault():
    assert {fault.source for fault in FAULTS.values()} == KINDS


def test_faults_are_harmful_and_changes_are_not():
    assert all(fault.harmful for fault in FAULTS.values())
    assert not any(change.harmful for change in HARMLESS_CHANGES.values())
    assert not FAULTS.keys() & HARMLESS_CHANGES.keys()


@pytest.mark.parametrize("fault", [*FAULTS.values(), *HARMLESS_CHANGES.values()], ids=lambda fault: fault.name)
def test_every_alteration_takes_the_options_of_its_fault(fault):
    inner = NumpyArithmetic()
    assert fault.alteration in {"operations": OPERATIONS, "inputs": INPUTS, "params": PARAMS}[fault.place]
    assert (plant_fault(inner, fault) is inner) == (fault.place != "operations")


def test_no_alteration_is_without_a_fault():
    used = {fault.alteration for fault in (*FAULTS.values(), *HARMLESS_CHANGES.values())}
    assert used == {*OPERATIONS, *INPUTS, *PARAMS}


def test_an_unknown_fault_is_told_with_the_nearest():
    with pytest.raises(UserError, match='fault=stale_bufer; did you mean "stale_buffer"') as told:
        fault_named("stale_bufer")
    assert told.value.slug == "unknown-fault"
