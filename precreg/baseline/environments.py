"""In which environments were baselines accepted?

An entry has only the fingerprint of its environment, which shows that another one differs, and not how. The facts
behind every fingerprint are stored once, beside the baselines, sorted and one a line. Missing facts explain nothing and
prevent nothing. Facts from before they were effects describe variables, and are compared with the same here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from precreg.baseline.store import delete_file, write_file
from precreg.baseline.suite_file import BASELINES_FOLDER, read_project_bytes
from precreg.baseline.text import parse_baseline, render_baseline
from precreg.environment import former_descriptions
from precreg.storage import WORKING_FOLDER, convert_data
from precreg.types import (
    Baseline,
    Case,
    ChangedEnvironment,
    Environment,
    EnvironmentDifference,
    EnvironmentFact,
    Execution,
    SameDescription,
    UnknownEnvironment,
    decisive_facts,
)

ENVIRONMENTS_SCHEMA = "precreg-environments/1"
ACCEPTED_ENVIRONMENTS_FILE = f"{BASELINES_FOLDER}/environments.json"
PROPOSED_ENVIRONMENTS_FILE = f"{WORKING_FOLDER}/environments.json"
# Every environment that is described by effects has this fact, and no earlier one has.
_EFFECT = "libm"
_HEADER, _MEMBERS = {"schema": ENVIRONMENTS_SCHEMA}, "environments"
# Whatever these compute with, the environment of the run describes.
_KINDS_WITHOUT_FACTS = ("python", "files", "table")
EnvironmentFacts = dict[str, str]
# The order of facts, from the most likely cause of other bits; others follow by name.
FIRST_FACTS = (
    "python",
    "numpy",
    "torch",
    "torch_kernels",
    "torch_threads",
    "blas",
    "kernels",
    "threads",
    "cpu_features",
    "libc",
    "libm",
)


def read_environment_facts(project: Path, file: str = ACCEPTED_ENVIRONMENTS_FILE) -> dict[str, EnvironmentFacts]:
    """Return the facts of environments by fingerprint; empty if the project has no such file.

    Raises:
        UserError: unreadable-baseline, conflicted-baseline, old-schema, future-schema, outside-project.
    """
    data = read_project_bytes(project, file)
    return {} if data is None else parse_baseline(data, file, _HEADER, _facts_of, members=_MEMBERS)


def add_environment_facts(
    project: Path, known: Mapping[str, Mapping[str, str]], file: str = ACCEPTED_ENVIRONMENTS_FILE
) -> None:
    """Add facts by fingerprint to the stored ones. The caller holds the lock.

    Raises UserError as `read_environment_facts` does.
    """
    before = read_environment_facts(project, file)
    _write(project, file, before, before | {id: dict(sorted(known[id].items())) for id in known})


def propose_environment_facts(project: Path, *environments: Environment) -> None:
    """Store the facts of the environments of proposals. The caller holds the lock."""
    # All of them: a review also explains the difference from an environment that is described by variables.
    facts = {environment.fingerprint: environment.facts for environment in environments}
    add_environment_facts(project, facts, PROPOSED_ENVIRONMENTS_FILE)


def accept_environment_facts(project: Path, fingerprints: Iterable[str]) -> None:
    """Copy the facts of accepted entries from the proposals to the baselines, if known. The caller holds the lock."""
    proposed = read_environment_facts(project, PROPOSED_ENVIRONMENTS_FILE)
    add_environment_facts(project, {id: decisive_facts(proposed[id]) for id in fingerprints if id in proposed})


def prune_environment_facts(project: Path, fingerprints: Collection[str]) -> None:
    """Keep only the facts of the given fingerprints. The caller holds the lock."""
    before = read_environment_facts(project)
    _write(project, ACCEPTED_ENVIRONMENTS_FILE, before, {id: before[id] for id in before if id in fingerprints})


def explain_baseline(
    found: Baseline | None, known: Mapping[str, Mapping[str, str]], here: Environment
) -> Baseline | None:
    """Add to a baseline how this environment differs from its own. `known` are facts by fingerprint."""
    if found is None or here.has_seen(found.entry):
        return found
    known = {**known, here.fingerprint: here.facts}
    return replace(found, difference=environment_difference(found.entry.fingerprint, here.fingerprint, known))


def expected_environment(
    case: Case, found: Baseline | None, known: Mapping[str, Mapping[str, str]], here: Environment
) -> Environment:
    """Return the environment in which a case will compute, as far as it is known before a run.

    Only a run shows the facts that the kind of a subject gives; those of the baseline stand for them. `known` are facts
    by fingerprint.
    """
    accepted = {} if found is None else known.get(found.entry.fingerprint, {})
    if case.subject.kind in _KINDS_WITHOUT_FACTS or _EFFECT not in accepted:
        return here
    given = {name: fact for name, fact in accepted.items() if name not in here.facts and name not in FIRST_FACTS}
    return here.of_case(Execution(facts=given))


def environment_difference(
    before: str, now: str, known: Mapping[str, Mapping[str, str]]
) -> EnvironmentDifference | None:
    """Return how the environments of two fingerprints differ; None for one fingerprint."""
    if before == now:
        return None
    unknown = [fingerprint for fingerprint in (before, now) if fingerprint not in known]
    if unknown:
        return UnknownEnvironment(unknown[0])
    # Equal facts have equal fingerprints, except between versions of precreg that compute them differently.
    facts = min((differing_facts(*pair) for pair in _comparable(known[before], known[now])), key=len)
    return ChangedEnvironment(facts) if facts else SameDescription(before, now)


def _comparable(
    before: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Yield the facts of two environments in the same terms."""
    if _EFFECT in before or _EFFECT not in now:
        yield decisive_facts(before) if _EFFECT in before else before, decisive_facts(now) if _EFFECT in now else now
    elif "thread_variables" in now:
        yield from ((before, each) for each in former_descriptions(now))
    else:
        # The facts that are the same in both terms; variables are not stored with baselines.
        names = ("numpy", "torch", "blas", "cpu_features", "libc")
        yield _named(before, names), _named(now, names)


def _named(facts: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: facts[name] for name in names if name in facts}


def differing_facts(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[EnvironmentFact, ...]:
    """Return the facts that differ, the most likely causes of other bits first."""
    # A dict keeps the order and removes repetitions.
    names = dict.fromkeys((*FIRST_FACTS, *sorted({*before, *now})))
    return tuple(
        EnvironmentFact(name, before.get(name), now.get(name)) for name in names if before.get(name) != now.get(name)
    )


def _facts_of(value: Any) -> EnvironmentFacts:
    return convert_data(value, EnvironmentFacts)


def _write(project: Path, file: str, before: dict[str, EnvironmentFacts], after: dict[str, EnvironmentFacts]) -> None:
    if after == before:
        return
    if after:
        write_file(project, file, render_baseline(_HEADER, after, members=_MEMBERS))
    else:
        delete_file(project, file)


def all_environment_facts(project: Path) -> dict[str, dict[str, str]]:
    """Return the facts of accepted and proposed environments by fingerprint."""
    accepted = read_environment_facts(project)
    proposed = read_environment_facts(project, PROPOSED_ENVIRONMENTS_FILE)
    # Accepted facts take precedence: they were reviewed. Proposed ones also explain, so that both are needed.
    return {id: proposed.get(id, {}) | accepted.get(id, {}) for id in (*proposed, *accepted)}
