"""The compiled core: same bits on every instruction set and however it is called, and wrong arguments never crash it.

That it gives what the readable form gives is tested in test_backends.py.
"""

import ctypes
import itertools
import platform
import resource
import subprocess
import sys
import threading
from functools import reduce
from math import inf, nan
from pathlib import Path
from time import perf_counter

import ml_dtypes
import numpy as np
import pytest

from precreg.measure import _core, plain, sketch
from precreg.measure import comparison as compare
from precreg.measure.accumulation import merge_tallies
from precreg.measure.chunks import COPY_CHUNK
from precreg.measure.compiled import STRUCTS, CoreResult
from precreg.measure.tally import Counts, MeasureRules, Tally
from precreg.quality.self_test import tally_differences
from tests.e2e.command import environ
from tests.measure import tallies

native = pytest.importorskip("precreg.measure.native", reason="no C++ compiler was there to build the core")

ROOT = Path(__file__).parents[2]
RULES = MeasureRules(1e-3, 1e-5, 20)
FLOAT32 = np.dtype(np.float32)


# Without PRECREG_ISA the widest set that the processor has serves.
EVERY_SET = ("generic", "avx2", "avx512")
SETS = EVERY_SET[: EVERY_SET.index(native.MEASURE_INSTRUCTION_SET) + 1]


def printed(*arguments, **variables):
    """Return the first line of another process, and its digests."""
    command = [sys.executable, "-m", "tests.measure.tallies", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environ(**variables), capture_output=True, text=True, check=True)
    serving, *digests = done.stdout.splitlines()
    return serving, digests


def test_every_instruction_set_of_this_processor_gives_the_same_bits():
    """Some 3,000 pairs of arrays, each instruction set in a process of its own: some 5 s."""
    found = dict(printed(PRECREG_ISA=name) for name in SETS)
    assert tuple(found) == SETS
    assert len(found["generic"]) > 2500
    for name, digests in found.items():
        differing = [line for line, other in zip(digests, found["generic"], strict=True) if line != other]
        assert not differing, f"{name}: {differing[:5]}"


def test_figures_of_every_instruction_set_are_those_of_numpy():
    serving, expected = printed("figures", PRECREG_FORM="numpy")
    assert serving == "tally_numpy"
    assert len(expected) > 900
    for name in SETS:
        serving, digests = printed("figures", PRECREG_ISA=name)
        assert serving == "tally_native"
        differing = [line for line, other in zip(digests, expected, strict=True) if line != other]
        assert not differing, f"{name}: {differing[:5]}"


LIMIT = 1 << 21  # pairs of float32 up to which the core looks for the worst in a second pass


def usual(random, n):
    reference = random.standard_normal(n)
    return reference * (1 + random.uniform(-1e-6, 1e-6, n)), reference


def equal_errors(random, n):
    """Draw errors of few sizes, so that many are as large as the bound of the second pass."""
    reference = random.integers(1, 100, n)
    return reference + random.integers(0, 4, n) * 0.25, reference


def one_subnormal(random, n):
    actual = np.zeros(n)
    actual[n // 2] = 2.0**-149
    return actual, np.zeros(n)


def beyond_float32(random, n):
    """Draw differences that float32 does not hold, beside infinities."""
    signs = random.choice((-1.0, 1.0), (2, n))
    sides = signs * np.finfo(np.float32).max
    sides[0, ::7], sides[1, ::11] = inf, nan
    return sides[0], sides[1]


@pytest.mark.parametrize("kind", [usual, equal_errors, one_subnormal, beyond_float32])
@pytest.mark.parametrize("n", [31, 5000, LIMIT - 1, LIMIT + 1])
@pytest.mark.parametrize("worst", [1, 100])
def test_the_worst_pairs_are_those_of_numpy(kind, n, worst):
    actual, reference = (side.astype(np.float32) for side in kind(np.random.default_rng(n), n))
    with np.errstate(all="ignore"):
        errors = np.abs(actual.astype(np.float64) - reference)
    errors[~np.isfinite(errors)] = 0
    expected = [index for index in np.argsort(-errors, kind="stable")[:worst].tolist() if errors[index] > 0]
    found = native.tally_native(actual, reference, 0, actual.shape, MeasureRules(1e-3, 1e-5, worst))
    assert found.worst.index == expected


def long_pair():
    """Two chunks and a part of a third, with rare things in some places."""
    generator = np.random.default_rng(3)
    reference = generator.normal(size=2 * COPY_CHUNK + 777)
    actual = (reference * (1 + generator.normal(size=reference.size) * 1e-6)).astype(np.float32)
    actual[1000:1003], reference[COPY_CHUNK], actual[-1] = nan, inf, 1e-45
    reference[5000:6000] *= 1e-300
    return actual, reference


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_any_number_of_threads_gives_the_same_metrics_to_the_bit(threads):
    """Sums of groups alone are ordinary ones, which depend on where the pairs are cut."""
    one, several = (
        compare.compare_arrays(*long_pair(), rtol=1e-3, atol=1e-5, threads=number) for number in (1, threads)
    )
    for name in one.__struct_fields__:
        if name not in ("groups", "heat"):
            assert repr(getattr(several, name)) == repr(getattr(one, name)), name
    tally, other = (compare.tally_arrays(*long_pair(), RULES, number) for number in (1, threads))
    assert tally_differences(tally, other) == []


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_any_cut_gives_the_same_counts_maxima_places_and_named_pairs(order):
    actual, reference = long_pair()
    whole = native.tally_native(actual, reference, 0, actual.shape, RULES)
    for cuts in ([1], [127, 128, 129], [5000, 300_000], list(range(0, actual.size, 50_001))):
        places = [*sorted({0, *cuts}), actual.size]
        parts = [
            native.tally_native(actual[low:high], reference[low:high], low, actual.shape, RULES)
            for low, high in itertools.pairwise(places)
        ]
        merged = reduce(
            lambda one, other: merge_tallies(one, other, RULES), parts if order == "forward" else parts[::-1]
        )
        assert tally_differences(merged, whole) == []


def test_sums_are_those_of_the_readable_form():
    """As rational numbers; some 3 s, because the readable form is slow."""
    wrong = {}
    for name, pair in tallies.hard_pairs():
        shape = pair[0].shape
        wrong[name] = tally_differences(
            native.tally_native(*pair, 0, shape, RULES), plain.tally_reference(*pair, 0, shape, RULES)
        )
    assert len(wrong) > 20
    assert {name: what for name, what in wrong.items() if what} == {}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("value", [nan, -nan, inf, -inf])
@pytest.mark.parametrize("count", [1, 127, 128, 200])
def test_identical_arrays_with_nan_and_infinities(dtype, value, count):
    """What both sides have in common is measured on a way of its own, which must see what is no number."""
    pair = (np.linspace(1, 2, 256).astype(dtype),) * 2
    pair[0][:count] = value
    assert (
        tally_differences(native.tally_native(*pair, 0, (256,), RULES), plain.tally_reference(*pair, 0, (256,), RULES))
        == []
    )


def test_an_infinite_reference_of_a_dtype_whose_numbers_the_output_has_is_an_infinity():
    """float8_e4m3fn has every number of float8_e4m3, but no infinities: no reference is rounded."""
    pair = np.zeros(2, ml_dtypes.float8_e4m3fn), np.array([inf, -inf]).astype(ml_dtypes.float8_e4m3)
    found = native.tally_native(*pair, 0, (2,), RULES)
    assert (found.counts.plus_inf_mismatched, found.counts.minus_inf_mismatched) == (1, 1)
    assert tally_differences(found, plain.tally_reference(*pair, 0, (2,), RULES)) == []


def measure(**changed):
    """Call the core itself on 40 ones, with some of the arguments changed."""
    plan = native.native_plan(FLOAT32, FLOAT32, ())
    ones = np.ones(40, np.float32)
    right = dict(actual=ones, reference=ones, start=0, shape=(40,), rtol=0.0, atol=0.0, worst=3)
    arguments = {**right, "plan": plan.packed, "tables": plan.tables} | changed
    return CoreResult(*_core.read(_core.measure(*arguments.values())))


def plan_with(**changed):
    fields = native._plan_fields(FLOAT32, FLOAT32, ())
    return np.array(fields._replace(**changed), STRUCTS["Plan"]).tobytes()


SIZE_OF_PLAN = STRUCTS["Plan"].itemsize


WRONG = {
    "fewer references": {"reference": np.ones(39, np.float32)},
    "references of another size": {"reference": np.ones(40)},
    "parts of items": {"actual": bytes(163), "reference": bytes(163)},
    "a gap between items": {"actual": np.ones(80, np.float32)[::2]},
    "columns first": {"actual": np.ones((5, 8), np.float32).T},
    "no buffer": {"actual": None},
    "a list": {"reference": [1.0] * 40},
    "no plan": {"plan": b""},
    "a short plan": {"plan": bytes(SIZE_OF_PLAN - 1)},
    "a long plan": {"plan": bytes(SIZE_OF_PLAN + 1)},
    "text for a plan": {"plan": "x"},
    "one table": {"tables": bytes(256 * 4)},
    "tables of float64": {"tables": bytes(2 * 256 * 8)},
    "tables of text": {"tables": "x"},
    "a kind too large": {"plan": plan_with(actual=9)},
    "a negative kind": {"plan": plan_with(actual=-1)},
    "a negative kind of the reference": {"plan": plan_with(reference=-1)},
    "a shape that is a list": {"shape": [40]},
    "a shape of text": {"shape": ("x",)},
    "a shape of large numbers": {"shape": (2**80,)},
    "an empty shape": {"shape": (0, 5)},
    "a negative shape": {"shape": (-40,)},
    "a shape too large": {"shape": (2**40, 2**40)},
    "a shape too small": {"shape": (39,)},
    "a start before the array": {"start": -1},
    "a start too late": {"start": 1},
    "a start beyond integers": {"start": 2**63},
    "a negative number of named pairs": {"worst": -1},
    "a number of named pairs beyond integers": {"worst": 2**63},
    "a tolerance of text": {"rtol": "x"},
    "no tolerance": {"atol": None},
    "a number of named pairs that is no integer": {"worst": 3.5},
}


REFUSAL = """
from tests.measure.test_native import WRONG, measure
for name in {names!r}:
    try:
        measure(**WRONG[name])
    except (ValueError, TypeError, OverflowError, BufferError):
        print(name, flush=True)
"""


def refused(*names):
    """Return which of the wrong arguments raise; in a process of its own, which an unprotected core brings down."""
    command = [sys.executable, "-c", REFUSAL.format(names=names)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()


def test_wrong_arguments_raise():
    assert refused(*WRONG) == list(WRONG)


@pytest.mark.parametrize("wrong", [None, 1, b"", np.random.default_rng(0).bit_generator.capsule])
def test_only_results_of_the_core_are_read(wrong):
    with pytest.raises(ValueError, match="PyCapsule"):
        _core.read(wrong)


def test_more_pairs_than_counters_hold_are_refused():
    many = np.zeros(2**28 + 1, np.bool_)  # takes no memory before it is read
    with pytest.raises(ValueError, match="at most"):
        native.tally_native(many, many, 0, many.shape, RULES)


def test_ones_are_measured():
    counts = Counts(*measure().counts)
    assert (counts.n, counts.finite) == (40, 40)


CORE_OF_OTHER_SOURCES = """
import sys, types
from precreg.measure import _core
declarations = dict(_core.declarations, {changed})
sys.modules["precreg.measure._core"] = types.SimpleNamespace(
    declarations=declarations, instruction_set="generic", measure=_core.measure, sizes=_core.sizes
)
del sys.modules["precreg.measure"]._core
from precreg.measure import comparison, sketch
print(comparison.FASTEST, *comparison.BACKENDS, sketch.sizes.__name__)
import precreg.measure.native
"""


@pytest.mark.parametrize(
    "changed",
    [
        "Regions=_core.declarations['Regions'].replace('small_bound', 'smallest_bound')",
        "Counts=_core.declarations['Counts'].replace('equal, matching', 'matching, equal')",
        "Sums='absolute, signed_'",
        "Result=_core.declarations['Result'] + ', extremes'",
        "measure='actual, reference, plan'",
        "Later='x, y'",
    ],
)
def test_a_core_that_declares_other_names_is_refused_and_numpy_serves(changed):
    code = CORE_OF_OTHER_SOURCES.format(changed=changed)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "numpy numpy plain read_sketch\n"
    assert "ImportError: the core was built from other sources" in done.stderr


def test_results_have_the_names_of_the_classes_that_they_fill():
    """compiled.py cannot import Sizes from sketch.py, which imports it."""
    assert _core.declarations["Sizes"] == ", ".join(sketch.SketchStatistics._fields)
    assert CoreResult._fields == Tally.__struct_fields__


def seen_meanwhile(work):
    """Whether this thread got a turn in the middle half of another thread's work."""
    times, span, begun, done = [], [], threading.Event(), threading.Event()

    def timed():
        begun.set()
        span.append(perf_counter())
        work()
        span.append(perf_counter())
        done.set()

    thread = threading.Thread(target=timed)
    thread.start()
    begun.wait()
    while not done.is_set():
        times.append(perf_counter())
    thread.join()
    quarter = (span[1] - span[0]) / 4
    return any(span[0] + quarter < time < span[1] - quarter for time in times)


def test_another_thread_runs_while_the_core_measures():
    """As none does while bytes are counted, which Python does without letting go of the interpreter."""
    actual = np.arange(20_000_000, dtype=np.float32)
    reference = actual + np.float32(0.5)
    held, more = b"ab" * 50_000_000, 0
    # On a busy machine this thread may get no turn in one call, though it could have had one; or it gets one after
    # the first reading of the clock, before any work. So the two are told apart by many calls.
    for _ in range(50):
        more += seen_meanwhile(lambda: native.tally_native(actual, reference, 0, actual.shape, RULES))
        more -= seen_meanwhile(lambda: held.count(b"ab"))
        if more == 5:
            break
    assert more == 5


def test_memory_stays_flat_over_many_calls():
    generator = np.random.default_rng(0)
    actual, reference = (generator.normal(size=3000).astype(np.float32) for _ in "ar")
    actual[5], reference[7] = nan, 1e-40

    def call(times):
        for _ in range(times):
            native.tally_native(actual, reference, 0, (30, 100), RULES)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = call(1000)
    grown = call(10_000) - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 2_000_000, "bytes"


def subnormal_pair():
    actual = np.arange(1, 401, dtype=np.uint32).view(np.float32)
    return actual, actual[::-1].astype(np.float64) * 1.0001


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="where control bits lie")
def test_a_thread_that_takes_subnormals_for_zeros_and_rounds_up_measures_the_same():
    """As libraries that were built for speed leave it behind. The thread ends here, and its control bits with it."""
    pair, found = subnormal_pair(), []

    def work():
        libm, environment = ctypes.CDLL("libm.so.6"), (ctypes.c_uint32 * 8)()
        libm.fegetenv(environment)
        environment[7] |= 0x8040 | 0x4000
        libm.fesetenv(environment)
        native.native_plan.cache_clear()  # other threads use the plan that this one makes
        found.append(native.tally_native(*pair, 0, pair[0].shape, RULES))
        environment[:] = [0] * 8
        libm.fegetenv(environment)
        found.append(environment[7] & 0xC040)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    plan = native.native_plan(*(side.dtype for side in pair), ()).packed
    native.native_plan.cache_clear()
    assert plan == native.native_plan(*(side.dtype for side in pair), ()).packed
    assert found == [native.tally_native(*pair, 0, pair[0].shape, RULES), 0xC040]


WITHOUT_MEMORY = """
import resource
import ml_dtypes
import numpy as np
from precreg.measure import native
from precreg.measure.tally import MeasureRules
few, many = np.arange(1000, dtype=np.float32), np.arange(6_000_000, dtype=np.float32)
expected = native.tally_native(few, few[::-1], 0, few.shape, MeasureRules(0, 0, 3))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
try:
    native.tally_native(many, many[::-1], 0, many.shape, MeasureRules(0, 0, many.size))
except MemoryError:
    print("no memory", native.tally_native(few, few[::-1], 0, few.shape, MeasureRules(0, 0, 3)) == expected)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory cannot be limited")
def test_running_out_of_memory_is_an_error_and_leaves_no_counts_behind():
    done = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "no memory True\n"
