"""The planted causes: each applies, runs and changes bits, and good versions agree with a formula of their own."""

import inspect
from collections import Counter

import numpy as np
import pytest

from benchmarks.diagnosis.execution import exact_outputs, good_outputs, planted_outputs
from benchmarks.diagnosis.kinds import KIND_OF_FINGERPRINT, KIND_OF_REWRITE, KINDS, NEAR_KINDS
from benchmarks.diagnosis.plant import HALVES, KERNELS, good_source, guilty_lines, plant, planted_source
from benchmarks.diagnosis.project import oracle_of
from benchmarks.diagnosis.tables import PAIRS, plants
from precreg.arithmetic import format_of
from precreg.types.diagnosis import FingerprintKind

PLANTS = plants()
by_plant = pytest.mark.parametrize("planted", PLANTS.values(), ids=PLANTS.keys())
by_kernel = pytest.mark.parametrize("kernel", HALVES)

# Units of the output's format, relative to its largest value. An output of 16 bits is rounded once, at its end.
UNITS = {"float32": 128, "float16": 2, "bfloat16": 2}


def rms_error(outputs, exact):
    """Return the root mean square error of each output."""
    wide = {name: array.astype(np.float64) - exact[name].astype(np.float64) for name, array in outputs.items()}
    return {name: np.sqrt(np.mean(np.square(errors))) for name, errors in wide.items()}


def arguments_of(kernel):
    """Return the names of the inputs and params that a kernel's source declares."""
    scope = {}
    exec(compile(good_source(kernel), kernel, "exec"), scope)
    return set(inspect.signature(scope[kernel]).parameters)


def test_there_are_as_many_plants_kernels_and_kinds_as_the_score_needs():
    assert len(PLANTS) >= 100
    assert len(HALVES) >= 20
    assert sum(planted.beyond for planted in PLANTS.values()) * 2 >= len(PLANTS)
    assert sum(len(planted.causes) == 2 for planted in PLANTS.values()) == len(PAIRS) >= 10
    assert sum(planted.harmless for planted in PLANTS.values()) >= 5


def test_every_kernel_has_plants_and_every_kind_is_planted():
    assert {planted.kernel for planted in PLANTS.values()} == set(HALVES)
    assert {path.stem for path in KERNELS.glob("*.yaml")} == set(HALVES)
    assert {cause.kind for planted in PLANTS.values() for cause in planted.causes} == set(KINDS)


def test_halves_and_oracles_are_balanced():
    assert Counter(HALVES.values()) == {"develop": 15, "held_out": 15}
    share = sum(planted.half == "develop" for planted in PLANTS.values()) / len(PLANTS)
    assert 0.4 < share < 0.6
    for half in ("develop", "held_out"):
        assert {oracle_of(kernel) for kernel in HALVES if HALVES[kernel] == half} == {"reference", "golden"}


def test_tables_name_known_kinds_and_all_fingerprints():
    named = [*KIND_OF_REWRITE.values(), *KIND_OF_FINGERPRINT.values(), *NEAR_KINDS.values()]
    assert all(kinds <= set(KINDS) for kinds in named)
    assert set(KIND_OF_FINGERPRINT) == set(FingerprintKind.__args__)


@by_plant
def test_each_plant_changes_bits_and_keeps_dtypes_and_shapes(planted):
    good, bad = good_outputs(planted.kernel), planted_outputs(planted)
    assert {name: (array.dtype, array.shape) for name, array in good.items()} == {
        name: (array.dtype, array.shape) for name, array in bad.items()
    }
    assert any(good[name].tobytes() != bad[name].tobytes() for name in good)
    assert all(np.isfinite(array.astype(np.float64)).all() for array in bad.values())


@by_plant
def test_each_plant_has_a_guilty_line_and_known_names(planted):
    good, bad = good_source(planted.kernel), planted_source(planted)
    lines = {line.strip() for line in f"{good}\n{bad}".splitlines()}
    assert planted.line in lines
    names = arguments_of(planted.kernel) | set(good_outputs(planted.kernel))
    for cause in planted.causes:
        assert guilty_lines(planted, cause) <= lines
        assert guilty_lines(planted, cause)
        assert cause.names <= names
        assert cause.kinds <= set(KINDS)


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_two_causes_give_other_bits_than_each_alone(pair):
    first, second = (planted_outputs(PLANTS[name]) for name in pair)
    kernel = PLANTS[pair[0]].kernel
    (both,) = [planted for planted in PLANTS.values() if planted.id == f"{pair[0]}+{PLANTS[pair[1]].causes[0].name}"]
    together = planted_outputs(both)
    for alone in (first, second, good_outputs(kernel)):
        assert any(alone[name].tobytes() != together[name].tobytes() for name in alone)


@by_kernel
def test_good_versions_agree_with_a_formula_of_their_own(kernel):
    good, exact = good_outputs(kernel), exact_outputs(kernel)
    assert set(good) == set(exact)
    for name, array in good.items():
        error = np.abs(array.astype(np.float64) - exact[name].astype(np.float64)).max()
        if array.dtype == np.int8:
            assert error == 0
        else:
            unit = format_of(array.dtype.name).unit_roundoff
            assert exact[name].dtype == np.float64
            assert error <= UNITS[array.dtype.name] * unit * np.abs(exact[name]).max()


@pytest.mark.parametrize("name", [name for name, planted in PLANTS.items() if planted.harmless])
def test_harmless_orders_are_as_accurate_as_before(name):
    exact = exact_outputs(PLANTS[name].kernel)
    before = rms_error(good_outputs(PLANTS[name].kernel), exact)
    after = rms_error(planted_outputs(PLANTS[name]), exact)
    assert all(after[output] <= 1.25 * before[output] for output in exact)


@pytest.mark.parametrize("before", ["no such text", "f32"])
def test_an_edit_that_does_not_match_once_is_an_error(before):
    with pytest.raises(ValueError, match="expected the text once"):
        planted_source(plant("adam", "wrong", "constant", (before, "0")))


def test_a_line_that_is_named_and_missing_is_an_error():
    wrong = plant("adam", "wrong", "constant", ("f32(lr *", "f32(2 * lr *"), also=("no such line",))
    with pytest.raises(ValueError, match="expected a part of a line"):
        guilty_lines(wrong, wrong.causes[0])
