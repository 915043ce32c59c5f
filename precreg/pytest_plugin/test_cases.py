"""Which case does a test define with each of its checks?

The case is named after the test. The test brings arrays, or functions that a check calls at several seeds. Measuring
and judging are the same as for any other case.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import UserError
from precreg.storage import Source
from precreg.types import (
    DEFAULT_SEEDS,
    TEST_DEFINED_PREFIX,
    TIERS,
    Case,
    Comparison,
    Computation,
    Layer,
    Location,
    Outcome,
    Role,
    Tier,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The beginning of the definitions of test-defined cases. The number grows when the rule of definitions changes.
TEST_DEFINITION = f"{TEST_DEFINED_PREFIX}1"

# The digest of a definition must not depend on the order of keys, nor on white space.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
# Characters that the name of a suite cannot have, because baselines are files of that name.
_UNSAFE = re.compile(r"[^A-Za-z0-9_/-]|^-")


class PrecisionCheck(Struct, frozen=True):
    """Hold one check of one test: its test, its place and its tolerance."""

    # The test's file without its ending, relative to the project, or to pytest's root outside of it.
    module: str
    # Classes, function and parameters, joined with points.
    test: str
    source: Location
    role: Role
    # Distinguishes the checks of one test.
    name: str = ""
    tier: Tier = "unit"
    category: str | None = None
    # As under that key of a suite.
    tolerance: dict[str, Any] = {}
    exact: bool = False

    @property
    def suite(self) -> str:
        """Return the module as the name of a suite: tests/ops/test_softmax is tests.ops.test_softmax."""
        # Points of the path are escaped too, as +2e: otherwise a/b and a.b would be one suite.
        return _UNSAFE.sub(lambda odd: f"+{ord(odd[0]):x}", self.module).replace("/", ".")

    @property
    def case(self) -> str:
        """Return the test, with the name of the check if it has one."""
        return f"{self.test}-{self.name}" if self.name else self.test

    @property
    def id(self) -> str:
        """Return tier/suite/case."""
        return f"{self.tier}/{self.suite}/{self.case}"

    @property
    def settings(self) -> Source:
        """Return the tolerance as a source; the line of every value is the check's."""
        return Source(self.source.file, {"tolerance": self.tolerance}, {(): self.source.line})


def role_of(reference: object, golden: object, source: Location) -> Role:
    """Return the role of a check's oracle. Raises UserError (bad-value) unless exactly one is given."""
    if (reference is None) == (golden is None):
        received = "neither" if reference is None else "both"
        raise _mistake(
            source,
            "bad-value",
            f"expected reference= or golden= but got {received}",
            "give one: precision.check(actual, reference=exact)",
        )
    return "golden" if reference is None else "reference"


def require_valid_check(check: PrecisionCheck, names: Collection[str], suite_place: str | None) -> None:
    """Require that no other case has the check's id.

    `names` are the names of the test's earlier checks. `suite_place` has file and line of the suite that has the name
    of the check's suite, if there is one. Raises UserError: bad-value, duplicate-case, duplicate-suite.
    """
    source, suite = check.source, f"{check.tier}/{check.suite}"
    for key, given in (("name", check.name or "a"), ("category", check.category or "a")):
        if not (isinstance(given, str) and _NAME.fullmatch(given)):
            message = f"expected a {key} of letters, digits and _ . + - but got {key}={given!r}"
            raise _mistake(source, "bad-value", message, f"write such a name: {key}='softmax_rows'")
    if check.tier not in TIERS:
        raise _mistake(
            source,
            "bad-value",
            f"expected one of {', '.join(TIERS)} but got tier={check.tier}",
            "write one of them: tier='unit'",
        )
    if check.name in names:
        message = f"expected a name= of its own for each check of a test but got name={check.name!r} twice"
        raise _mistake(source, "duplicate-case", message)
    if suite_place is not None:
        message = f"expected a test file with another name than a suite but {suite} is the suite in {suite_place}"
        raise _mistake(source, "duplicate-suite", message)


def _mistake(source: Location, slug: str, message: str, hint: str = "") -> UserError:
    return UserError(slug, message, file=source.file, line=source.line, hint=hint)


def tolerance_settings(tolerance: Mapping[str, Any] | str | None, source: Location, **limits: object) -> dict[str, Any]:
    """Return a check's tolerance and limits as plain data, also for numbers of numpy.

    Raises UserError (bad-value) for a tolerance that is neither a mapping nor the word `none`.
    """
    # The same word as in a suite.
    if tolerance == "none":
        tolerance = {"standard": tolerance}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    plain: dict[str, Any] = _plain({**_mapping("tolerance", tolerance, source), **given})
    return plain


def _mapping(key: str, given: Any, source: Location) -> Mapping[str, Any]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    raise _mistake(
        source,
        "bad-value",
        f"expected a dict but got {key} of type {type(given).__name__}",
        f"write a dict: {key}={{}}" if key != "tolerance" else "write a dict: tolerance={'max_ulp': 4}",
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    return value if isinstance(value, str | int | float | None) else repr(value)


def input_arrays(inputs: Mapping[str, Any] | None, source: Location) -> dict[str, NDArray[Any]]:
    """Return a check's inputs as arrays. Raises UserError (bad-value) for inputs without numbers."""
    return {str(name): _numbers(name, value, source) for name, value in _mapping("inputs", inputs, source).items()}


class SeedResults(NamedTuple):
    """The outputs of a test and of its oracle at one seed, and the inputs that they were computed from."""

    actual: Any
    oracle: Any
    inputs: dict[str, NDArray[Any]]


def seed_results(actual: Any, oracle: Any, inputs: Any, seeds: int | None, source: Location) -> list[SeedResults]:
    """Return the results of a check seed by seed: one, or `seeds` of functions whose inputs are drawn.

    `seeds` None means the default of suites. `inputs` draws the inputs of seed k from `numpy.random.default_rng(k)`.
    Raises UserError (bad-value) unless either all of the three are functions or none of them.
    """
    functions = [callable(each) for each in (actual, oracle, inputs)]
    if not any(functions):
        if seeds not in (None, 1):
            raise _mistake(
                source,
                "bad-value",
                f"expected functions to call at each seed but got arrays, {seeds=}",
                "leave out seeds=, or give functions: check(f, reference=g, inputs=lambda rng: {...}, seeds=8)",
            )
        return [SeedResults(actual, oracle, input_arrays(inputs, source))]
    if not all(functions):
        example = "check(f, reference=g, inputs=lambda rng: {'x': rng.normal(size=9)}, seeds=8)"
        names = ("the subject", "its reference or golden", "inputs")
        missing = [name for name, is_function in zip(names, functions, strict=True) if not is_function]
        message = f"expected functions alone but got no function for {' and '.join(missing)}"
        raise _mistake(source, "bad-value", message, f"write {example}")
    seeds = DEFAULT_SEEDS if seeds is None else seeds
    if not isinstance(seeds, int) or seeds < 1:
        raise _mistake(
            source,
            "bad-value",
            f"expected a number of seeds from 1 on but got seeds={seeds!r}",
            "write a number: seeds=8",
        )
    __tracebackhide__ = True  # an exception of the test's functions shows the test, and not this module
    found: list[SeedResults] = []
    for seed in range(seeds):
        try:
            found.append(_drawn_results(actual, oracle, inputs, seed, source))
        except UserError:
            raise
        except Exception as error:
            error.add_note(f"at seed {seed} of precision.check: inputs drawn from numpy.random.default_rng({seed})")
            raise
    return found


def _drawn_results(actual: Any, oracle: Any, draw: Any, seed: int, source: Location) -> SeedResults:
    """Return the results at one seed."""
    import numpy as np

    __tracebackhide__ = True
    drawn = _returned("inputs", draw, source, np.random.default_rng(seed))
    if not isinstance(drawn, Mapping):
        given = f"expected inputs to return arrays by name, as in {{'x': array}}, but got {type(drawn).__name__}"
        raise _mistake(source, "bad-value", given, "return a dict: inputs=lambda rng: {'x': rng.normal(size=9)}")
    inputs = input_arrays(drawn, source)
    # Each function has arrays of its own, because it may overwrite them.
    got = _returned("the subject", actual, source, **_own_arguments(drawn, inputs))
    return SeedResults(
        got, _returned("the reference or golden", oracle, source, **_own_arguments(drawn, inputs)), inputs
    )


def _returned(role: str, function: Any, source: Location, /, *given: Any, **arrays: Any) -> Any:
    """Call a function of a check, and return its result. Raises UserError (bad-value) for other parameters."""
    __tracebackhide__ = True
    try:
        return function(*given, **arrays)
    except TypeError:
        # Only now, because reading a signature takes 8 us.
        _require_arguments(role, function, source, *given, **arrays)
        raise


def _own_arguments(drawn: Mapping[Any, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of the drawn arrays; drawn tensors stay tensors."""
    from precreg.subject import is_tensor

    tensors = {str(name): value for name, value in drawn.items() if is_tensor(value)}
    return {name: tensors[name].clone() if name in tensors else each.copy() for name, each in inputs.items()}


def _require_arguments(role: str, function: Any, source: Location, /, *given: Any, **arrays: Any) -> None:
    """Refuse a function that cannot take the arguments of a check; one without a readable signature is called."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(*given, **arrays)
    except TypeError as error:
        takes = "a numpy.random.Generator" if given else f"the inputs {', '.join(arrays)} as keyword arguments"
        raise _mistake(
            source,
            "bad-value",
            f"expected {role} to take {takes}, but it has {signature}: {error}",
            f"write such a function: def {'draw(rng)' if given else f'f({chr(44).join(arrays)})'}: ...",
        ) from None


def _numbers(name: str, value: Any, source: Location) -> NDArray[Any]:
    import numpy as np

    from precreg.subject import is_tensor, tensor_to_array

    if is_tensor(value):
        return tensor_to_array(value, f"inputs.{name}", "bad-value")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise _mistake(
            source,
            "bad-value",
            f"expected an array but got inputs.{name}: {error}",
            "give rows of one length: numpy.array([[1, 2], [3, 4]])",
        ) from error
    if array.dtype.kind not in "biufc" and array.dtype.name not in DTYPE_NAMES:
        message = f"expected an array of numbers but got inputs.{name} of dtype={array.dtype}"
        raise _mistake(source, "bad-value", message, "convert it: numpy.asarray(x, dtype='float64')")
    return array


def case_of_check(check: PrecisionCheck, inputs: Mapping[str, Any], layers: tuple[Layer, ...], seeds: int = 1) -> Case:
    """Return the case of a check. Names, dtypes and shapes of its inputs are a part of the definition."""
    definition = _definition(check, inputs)
    computed = Computation("pytest", f"{check.module}::{check.test}")
    return Case(
        id=check.id,
        tier=check.tier,
        suite=check.suite,
        name=check.case,
        source=check.source,
        definition=definition,
        baseline_id=check.id,
        baseline_definition=definition,
        directory=check.source.file.rpartition("/")[0],
        subject=computed,
        oracle=computed,
        role=check.role,
        inputs={},
        params={},
        parameters={},
        layers=layers,
        exact=check.exact,
        category=check.category,
        seeds=seeds,
    )


def measure_check(case: Case, results: Sequence[SeedResults], chain: tuple[str, ...]) -> Outcome:
    """Measure the outputs of a test: arrays, dicts of arrays by output, or tuples of them, on either side.

    The outcome has the digest of the inputs, or of no inputs, seed by seed. Raises UserError (bad-outputs).
    """
    from precreg.run import array_digests, combine_digests, compare_with_oracle
    from precreg.subject import name_outputs
    from precreg.types import Execution

    comparisons: list[Comparison] = []
    absent: dict[str, None] = {}
    digests: dict[str, list[str]] = {}
    for seed, result in enumerate(results):
        got, expected = name_outputs(result.actual), name_outputs(result.oracle)
        compared, missing = compare_with_oracle(case, seed, got, expected, chain)
        comparisons += compared
        absent |= dict.fromkeys(missing)
        for name, digest in array_digests(got).items():
            digests.setdefault(name, []).append(digest)
    execution = Execution(
        inputs=tuple(combine_digests(array_digests(result.inputs)) for result in results),
        outputs={name: tuple(each) for name, each in digests.items()},
    )
    return Outcome(case.id, case.definition, execution, tuple(comparisons), tuple(absent))


def _definition(check: PrecisionCheck, inputs: Mapping[str, Any]) -> str:
    shapes = {name: [array.dtype.name, list(array.shape)] for name, array in inputs.items()}
    content = {"case": check.id, "role": check.role, "inputs": shapes}
    return f"{TEST_DEFINITION}:{sha256(_CANONICAL(content).encode()).hexdigest()[:32]}"
