"""Which facts show that a reference, a golden or a benchmark is another one than at the base of a run?"""

from __future__ import annotations

from typing import Literal

from precreg.types.case import Fact, Role


class OracleDifference(Fact, frozen=True, tag="differs"):
    """The largest difference between the results of a reference or golden at the base and now, on the same inputs.

    `differing` of `size` elements have other bits. `place` is the first of them. It is None if one version lacks the
    output, or gives it in another shape or dtype. `ulp` is None where no two different elements are finite. `seeds` of
    the case and `fresh` further ones were compared.
    """

    output: str
    seed: int
    seeds: int
    fresh: int
    differing: int = 0
    size: int = 0
    place: tuple[int, ...] | None = None
    ulp: float | None = None


class OracleUncompared(Fact, frozen=True, tag="uncompared"):
    """The reason why results of a reference or golden at the base and now could not be compared; `message` quotes."""

    cause: Literal["base_failed", "failed", "not_started", "other_inputs", "foreign_files", "unsteady", "no_time"]
    message: str = ""


OracleResults = OracleDifference | OracleUncompared


class OracleFilesChanged(Fact, frozen=True, tag="oracle_files_changed"):
    """Files of a reference, golden or benchmark that changed; `results` say what they change, if they were compared."""

    role: Role | Literal["benchmark"]
    files: tuple[str, ...]
    results: OracleResults | None = None


class OracleCodeChanged(Fact, frozen=True, tag="oracle_code_changed"):
    """A reference, golden or benchmark whose code changed; `results` say what that changes, if they were compared."""

    role: Role | Literal["benchmark"]
    code: str
    results: OracleResults | None = None


class OracleResultsChanged(Fact, frozen=True, tag="oracle_results_changed"):
    """A reference or golden with other bits than its baseline has in the same environment, for no visible reason."""

    role: Role
    results: OracleResults | None = None


class OracleFollowsSubject(Fact, frozen=True, tag="oracle_follows_subject"):
    """A reference or golden that newly opens files of its subject, in a way that its code does not show."""

    role: Role
    files: tuple[str, ...]


class OracleBesideSubject(Fact, frozen=True, tag="oracle_beside_subject"):
    """A reference or golden that gives other bits in the process of its subject than in a process of its own."""

    role: Role
    seed: int


class BenchmarkReplaced(Fact, frozen=True, tag="benchmark_replaced"):
    """Another benchmark than before, so that other errors divide in ratios."""

    before: str
    now: str


class OraclePatched(Fact, frozen=True, tag="oracle_patched"):
    """Attributes of imported objects that a subject newly sets, and that its reference or golden may use."""

    role: Role
    attributes: tuple[str, ...]


ComparedOracleFact = OracleFilesChanged | OracleCodeChanged | OracleResultsChanged
OracleFact = ComparedOracleFact | OraclePatched | OracleFollowsSubject | OracleBesideSubject | BenchmarkReplaced
