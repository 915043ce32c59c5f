"""The core of arithmetic: the bits of numpy's form on every instruction set, and wrong arguments never crash it."""

import ctypes
import platform
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest

from precreg.arithmetic import _core
from precreg.arithmetic import sums as numpy_sums
from precreg.arithmetic.exact import exact_matmul
from precreg.arithmetic.formats import Rounding, format_named
from precreg.arithmetic.rounding import round_to
from precreg.arithmetic.rounding_numpy import round_bits
from precreg.arithmetic.unit import Order, Unit
from tests.arithmetic.computed import ALL, ODD_FORMATS, matrices, units, values
from tests.arithmetic.hard_operands import assert_same
from tests.e2e.command import ROOT, environ

native = pytest.importorskip("precreg.arithmetic.native", reason="no C++ compiler was there to build the core")

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
FP16, FP32 = format_named("fp16"), format_named("fp32")
UNIT = Unit(FP16, FP32, FP32)
ROUNDED = [
    pytest.param(dtype, format, id=f"{dtype.__name__}-{format.name}")
    for dtype in (np.float32, np.float64)
    for format in ALL
    if native.can_round_native(np.dtype(dtype), format)
]


@pytest.mark.parametrize(("dtype", "format"), ROUNDED)
def test_rounding_has_the_bits_of_numpys_form(dtype, format):
    given = values(dtype)
    for rounding in Rounding:
        found = native.round_native(given, format, rounding, 11, 2**40)
        expected = round_bits(given, format, rounding, 11, 2**40)
        differing = np.flatnonzero(found.view(f"u{found.itemsize}") != expected.view(f"u{found.itemsize}"))
        assert not differing.size, (rounding, given[differing[:5]], found[differing[:5]], expected[differing[:5]])


def test_what_the_core_rounds():
    assert all(
        native.can_round_native(FLOAT32, format_named(name)) for name in ("fp32", "tf32", "bf16", "fp16", "float32_m20")
    )
    assert not native.can_round_native(FLOAT32, format_named("fp64"))
    assert native.can_round_native(FLOAT64, format_named("fp64"))
    assert not native.can_round_native(FLOAT32.newbyteorder(), FP16)
    assert not native.can_round_native(np.dtype(np.longdouble), FP16)
    assert not native.can_round_native(FLOAT32, ODD_FORMATS[-1])
    assert not native.can_round_native(FLOAT32, format_named("hif8"))
    # hif8 in neither dtype, and both float64 and a format wider than float32 in float64 alone.
    assert len(ROUNDED) == 2 * len(ALL) - 4


def test_chunks_are_what_the_whole_is_wherever_they_are_cut():
    given = values(np.float32)[:1003]
    whole = native.round_native(given, FP16, Rounding.STOCHASTIC, 2**64 + 3, 100)
    assert whole.tobytes() == native.round_native(given, FP16, Rounding.STOCHASTIC, 3, 100).tobytes()
    for cut in (1, 15, 16, 17, 500):
        parts = [(given[:cut], 100), (given[cut:], 100 + cut)]
        rounded = [native.round_native(part, FP16, Rounding.STOCHASTIC, 3, start) for part, start in parts]
        assert np.concatenate(rounded).tobytes() == whole.tobytes()


@pytest.mark.parametrize("shift", [0, 1, 7, 16])
def test_large_arrays_which_go_past_the_caches_from_anywhere_to_anywhere(shift):
    size = 2**20 + 37
    given = np.random.default_rng(1).normal(size=size + shift).astype(np.float32)[shift:]
    results = np.full(size + 64, np.float32(7))
    packed = native._packed(FLOAT32, FP16)
    for at in (0, 1, 3, 16):
        _core.round(given, results[at : at + size], 4, packed, 0, 0, 0)
        assert results[at : at + size].tobytes() == round_bits(given, FP16, Rounding.NEAREST_EVEN).tobytes()
        assert np.all(results[at + size :] == 7)


def test_in_place():
    given = values(np.float32)
    expected = round_bits(given, FP16, Rounding.UP)
    _core.round(given, given, 4, native._packed(FLOAT32, FP16), native._NUMBERS[Rounding.UP], 0, 0)
    assert given.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1, 5)])
def test_shapes_are_kept(shape):
    assert native.round_native(np.full(shape, 0.1, np.float32), FP16, Rounding.UP, 0, 0).shape == shape


def test_arrays_that_do_not_lie_in_order():
    given = np.random.default_rng(2).normal(size=(6, 10, 14)).astype(np.float32)
    given.flags.writeable = False
    for view in (given[::2, ::-1, 1::3], given.T, np.broadcast_to(given[0, 0], (5, 14))):
        for rounding in (Rounding.NEAREST_EVEN, Rounding.STOCHASTIC):
            expected = round_bits(np.ascontiguousarray(view), FP16, rounding)
            assert native.round_native(view, FP16, rounding, 0, 0).tobytes() == expected.tobytes()
    halves = round_to(given, FP16)[:, ::2]
    for a, b in ((halves.swapaxes(1, 2), halves[..., ::-1]), (halves[0].T, halves), (halves.swapaxes(1, 2), halves[3])):
        assert_same(native.matmul_native(a, b, UNIT), numpy_sums.matmul_numpy(*with_as_many_axes(a, b), UNIT))
    assert_same(native.total_native(halves.T, UNIT), numpy_sums.total_numpy(halves.T, UNIT))


def with_as_many_axes(a, b):
    axes = max(a.ndim, b.ndim)
    return (array.reshape((1,) * (axes - array.ndim) + array.shape) for array in (a, b))


def test_sums_have_the_bits_of_numpys_form():
    """Random units and shapes: those that the core leaves to numpy are a third."""
    generator, served = np.random.default_rng(8), 0
    with np.errstate(all="ignore"):
        for unit in units(500, 9):
            a, b = matrices(unit, generator)
            if native.can_sum_native(unit):
                served += 1
                assert_same(native.matmul_native(a, b, unit), numpy_sums.matmul_numpy(a, b, unit))
                assert_same(native.total_native(a, unit), numpy_sums.total_numpy(a, unit))
    assert served > 300


def test_sums_are_those_of_rational_arithmetic():
    generator = np.random.default_rng(10)
    for unit in units(60, 11):
        if not native.can_sum_native(unit):
            continue
        a, b = (generator.normal(size=shape).astype(np.float32) for shape in ((2, 21), (21, 3)))
        a, b = round_to(a, unit.input), round_to(b, unit.input)
        assert_same(native.matmul_native(a, b, unit), np.array(exact_matmul(a.tolist(), b.tolist(), unit)))


def test_arrays_that_are_not_aligned():
    given = np.random.default_rng(4).normal(size=(6, 14)).astype(np.float32)
    askew = np.frombuffer(b"?" + given.tobytes(), np.float32, given.size, 1).reshape(given.shape)
    assert not askew.flags.aligned
    assert_same(native.matmul_native(askew, askew.T, UNIT), native.matmul_native(given, given.T, UNIT))
    for operands in ([askew, given], [given, askew[0, :1]]):
        whole = [np.array(operand) for operand in operands]
        found, expected = (native.compute_native("add", each, FP16, Rounding.UP, 0, 0) for each in (operands, whole))
        assert_same(found, expected)


def test_not_every_seed_leaves_something_in_memory():
    term = np.ones((1, 1), np.float32)
    for seed in range(1000):
        native.matmul_native(term, term, Unit(FP16, FP16, FP16, rounding=Rounding.STOCHASTIC, seed=seed))
    assert native._plan.cache_info().currsize < 1000


def test_many_rows_columns_and_terms():
    """More rows than a band has, more columns than go together, more terms than a panel has."""
    generator = np.random.default_rng(12)
    for order, width in ((Order.BLOCKS, 48), (Order.LANES, 7), (Order.PAIRWISE, 1)):
        unit = Unit(FP16, FP32, FP32, order=order, width=width)
        a, b = (round_to(generator.normal(size=shape).astype(np.float32), FP16) for shape in ((259, 131), (131, 70)))
        assert_same(native.matmul_native(a, b, unit), numpy_sums.matmul_numpy(a, b, unit))


@pytest.mark.parametrize("order", Order)
def test_no_terms_give_zero_and_no_outputs_give_none(order):
    unit = Unit(FP16, FP32, FP32, order=order, width=4)
    nothing = np.zeros((2, 0), np.float32)
    assert native.matmul_native(nothing, nothing.T, unit).tobytes() == np.zeros((2, 2), np.float32).tobytes()
    assert native.matmul_native(nothing.T, nothing, unit).shape == (0, 0)
    assert native.total_native(nothing, unit).tolist() == [0.0, 0.0]


def test_what_the_core_leaves_to_numpy():
    """A float64 accumulator that rounds to odd needs more than float64 has; so do float64 inputs of float32 sums."""
    fp64 = format_named("fp64")
    assert native.can_sum_native(Unit(fp64, fp64, fp64))
    assert native.can_sum_native(Unit(fp64, FP32, FP32, rounding=Rounding.TOWARD_ZERO))
    assert not native.can_sum_native(Unit(FP32, fp64, fp64, rounding=Rounding.ODD))
    assert not native.can_sum_native(Unit(fp64, FP32, FP32))


def digests_of(instruction_set):
    """Return the instruction set that served another process, and the digests of what it computed."""
    command, variables = [sys.executable, "-m", "tests.arithmetic.computed"], environ(PRECREG_ISA=instruction_set)
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
    serving, *digests = done.stdout.splitlines()
    return serving, digests


def test_every_instruction_set_of_this_processor_gives_the_same_bits():
    """Each in a process of its own: some 4 s."""
    # Without PRECREG_ISA the widest set that the processor has serves.
    every = ("generic", "avx2", "avx512")
    has = every[: every.index(native.ARITHMETIC_INSTRUCTION_SET) + 1]
    found = dict(digests_of(name) for name in has)
    assert tuple(found) == has
    assert len(found["generic"]) > 700
    for name, digests in found.items():
        differing = [line for line, other in zip(digests, found["generic"], strict=True) if line != other]
        assert not differing, f"{name}: {differing[:5]}"


def arguments_of_round(**changed):
    packed = native._packed(FLOAT32, FP16)
    given = dict(values=np.ones(40, np.float32), results=np.ones(40, np.float32), itemsize=4, format=packed)
    return ({**given, "rounding": 0, "seed": 0, "start": 0} | changed).values()


def arguments_of_sums(**changed):
    given = dict(a=np.ones((2, 3), np.float32), t=np.ones((3, 4), np.float32), c=np.ones((2, 4), np.float32))
    return ({**given, "itemsize": 4, "plan": native._plan(UNIT).packed, "seed": 0} | changed).values()


def with_fields(packed, struct, **changed):
    """Return a packed struct with other values in some fields."""
    fields = np.frombuffer(packed, native._STRUCTS[struct]).copy()
    for name, value in changed.items():
        fields[name] = value
    return fields.tobytes()


def plan_with(**changed):
    return with_fields(native._plan(UNIT).packed, "Plan", **changed)


SIZES = {name: struct.itemsize for name, struct in native._STRUCTS.items()}


WRONG_ROUNDINGS = {
    "fewer results": {"results": np.ones(39, np.float32)},
    "results that cannot be written": {"results": bytes(160)},
    "parts of items": {"values": bytes(163), "results": bytearray(163)},
    "an item size that is none": {"itemsize": 2},
    "a gap between items": {"values": np.ones(80, np.float32)[::2]},
    "no buffer": {"values": None},
    "no format": {"format": b""},
    "a long format": {"format": bytes(SIZES["Format"] + 1)},
    "a format of nothing": {"format": bytes(SIZES["Format"])},
    "a format that float32 lacks": {"format": native._packed(FLOAT64, format_named("fp64"))},
    "a rounding too large": {"rounding": 8},
    "a negative rounding": {"rounding": -1},
    "a seed of text": {"seed": "x"},
}
WRONG_SUMS = {
    "a matrix too small": {"a": np.ones((2, 2), np.float32)},
    "results of another shape": {"c": np.ones((2, 3), np.float32)},
    "results that cannot be written": {"c": bytes(32)},
    "an item size of others": {"itemsize": 8},
    "terms that differ in number": {"t": np.ones((2, 6), np.float32)},
    "columns that differ in number": {"t": np.ones((3, 5), np.float32)},
    "rows that are not there": {"c": np.ones((3, 4), np.float32)},
    "too many rows": {"a": np.ones((2**40, 0), np.float32), "t": np.ones((0, 4), np.float32)},
    "a batch that the results lack": {"a": np.ones((5, 2, 3), np.float32)},
    "a batch that is not there": {"c": np.ones((5, 2, 4), np.float32), "a": np.ones((4, 2, 3), np.float32)},
    "a vector": {"a": np.ones(6, np.float32)},
    "four axes": {"t": np.ones((1, 1, 3, 4), np.float32)},
    "matrices of another item size": {"t": np.ones((3, 4))},
    "a transposed matrix": {"a": np.ones((3, 2), np.float32).T},
    "no plan": {"plan": b""},
    "a plan of nothing": {"plan": bytes(SIZES["Plan"])},
    "a product that is none": {"plan": plan_with(product=3)},
    "a rounding that is none": {"plan": plan_with(rounding=8)},
    "a rounding that the processor has not": {"plan": plan_with(rounding=native._NUMBERS[Rounding.ODD])},
    "float32 that is extended": {"plan": plan_with(extended=True)},
    "an order that is none": {"plan": plan_with(order=4)},
    "a negative order": {"plan": plan_with(order=-1)},
    "no width": {"plan": plan_with(width=0)},
}
REFUSAL = """
from precreg.arithmetic import _core
from tests.arithmetic.test_native import *
rounding, sums = (WRONG_ROUNDINGS, _core.round, arguments_of_round), (WRONG_SUMS, _core.add_up, arguments_of_sums)
for wrong, call, arguments in (rounding, sums):
    call(*arguments())
    for name, changed in wrong.items():
        try:
            call(*arguments(**changed))
        except (ValueError, TypeError, OverflowError, BufferError):
            print(name, flush=True)
"""


def test_wrong_arguments_raise():
    """In a process of its own, which an unprotected core brings down."""
    done = subprocess.run([sys.executable, "-c", REFUSAL], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [*WRONG_ROUNDINGS, *WRONG_SUMS], done.stderr


def computed():
    given = np.arange(1, 4001, dtype=np.uint32).view(np.float32)
    rounded = [
        native.round_native(given, format_named(name), mode, 0, 0) for name in ("bf16", "fp16") for mode in Rounding
    ]
    unit = Unit(FP32, FP32, FP32, order=Order.BLOCKS, width=8)
    return [each.tobytes() for each in (*rounded, native.total_native(given * np.float32(2**30), unit))]


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="where control bits lie")
def test_a_thread_that_takes_subnormals_for_zeros_and_rounds_up_computes_the_same():
    """As libraries that were built for speed leave it behind. The thread ends here, and its control bits with it."""
    expected, found = computed(), []

    def work():
        libm, environment = ctypes.CDLL("libm.so.6"), (ctypes.c_uint32 * 8)()
        libm.fegetenv(environment)
        environment[7] |= 0x8040 | 0x4000
        libm.fesetenv(environment)
        given = np.arange(1, 4001, dtype=np.uint32).view(np.float32)
        for name in ("bf16", "fp16"):
            found.extend(native.round_native(given, format_named(name), mode, 0, 0).tobytes() for mode in Rounding)
        environment[:] = [0] * 8
        libm.fegetenv(environment)
        found.append(environment[7] & 0xC040)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [*expected[:-1], 0xC040]


def test_the_direction_of_a_sum_does_not_outlive_it():
    before = computed()
    for rounding in (Rounding.UP, Rounding.DOWN, Rounding.TOWARD_ZERO):
        native.matmul_native(
            np.ones((3, 9), np.float32), np.ones((9, 2), np.float32), Unit(FP16, FP32, FP32, rounding=rounding)
        )
        assert computed() == before
        assert np.float32(1) + np.float32(2.0**-25) == 1 == np.float32(1) - np.float32(2.0**-26)


WITHOUT_MEMORY = """
import resource
import numpy as np
from precreg.arithmetic import native
from tests.arithmetic.test_native import UNIT
from precreg.arithmetic import _core
a, t, c = (np.ones(shape, np.float32) for shape in ((300, 2), (2, 3), (300, 3)))
expected = native.matmul_native(a, t, UNIT)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 14), resource.RLIM_INFINITY))
held = []
try:
    while True:
        held.append(bytearray(1 << 12))
        _core.add_up(a, t, c, 4, native._plan(UNIT).packed, 0)
except MemoryError:
    held.clear()
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    print("no memory", (native.matmul_native(a, t, UNIT) == expected).all())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory cannot be limited")
def test_running_out_of_memory_is_an_error():
    done = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "no memory True\n"


def test_memory_stays_flat_over_many_calls():
    a, b = np.ones((20, 30), np.float32), np.ones((30, 40), np.float32)

    def call(times):
        for _ in range(times):
            native.round_native(native.matmul_native(a, b, UNIT), FP16, Rounding.UP, 0, 0)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = call(300)
    grown = call(5000) - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 2_000_000, "bytes"
