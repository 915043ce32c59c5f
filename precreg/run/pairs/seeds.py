"""How do two versions compute one case on the same fresh seeds, and how far are they from one reference?

A worker of the accepted version draws inputs, runs its subject, and leaves the outputs in a file. A worker of the
present version draws the same inputs, runs its own subject and the reference, and measures both by that one reference.
So a reference costs one run a seed, and a change of the reference favours neither version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, msgpack

from precreg.subject import CaseFailed, TreePair, blame_failures, redirect_imports
from precreg.types import Case, Failure, Reason, SeedFigures

if TYPE_CHECKING:
    from precreg.run.computation import Arrays

# Seconds beyond the timeout of a case that a batch of many short seeds may take: some thirty times its need.
BATCH_PATIENCE_S = 30.0

# Name, dtype, shape and bytes of one output.
PackedArray = tuple[str, str, tuple[int, ...], bytes]


class SeedBatch(NamedTuple):
    """Consecutive fresh seeds of one case, and the file in which the accepted version leaves its outputs."""

    case: Case
    first: int
    number: int
    file: Path

    @property
    def key(self) -> str:
        """The name of the batch in a pool."""
        return f"{self.case.id} from seed {self.first}"


class PairOfFigures(Struct, frozen=True):
    """The figures of one output by both versions at one seed, and whether the bits are the same."""

    accepted: SeedFigures
    present: SeedFigures
    same_bits: bool


class BatchAnswer(Struct, frozen=True):
    """The answer to a batch: a digest of the inputs of each seed, and figures by seed and output.

    The accepted version gives no figures. `unsteady` names the first output whose bits differ in a second run on the
    first seed. `missing` names an output that one version gives in another shape or dtype, or not at all. `failure`
    says why there are no figures.
    """

    key: str
    inputs: tuple[str, ...] = ()
    figures: tuple[dict[str, PairOfFigures], ...] = ()
    unsteady: str = ""
    missing: str = ""
    failure: Failure | None = None


class SeedTask(NamedTuple):
    """The seeds of one version, as the task of workers: `compute` is `leave_outputs` or `measure_versions`.

    With `trees`, `project` lies in the checkout of the accepted version, and imports from the working tree lead there.
    """

    project: Path
    compute: Callable[[SeedBatch, Path], BatchAnswer]
    trees: TreePair | None = None

    def prepare(self) -> None:
        """Lead imports to the accepted version, if this is its worker, and start the process of the oracles."""
        if self.trees is not None:
            redirect_imports(self.trees)
        import precreg.run.case_run  # noqa: F401
        from precreg.run.oracle import start_oracle_process

        start_oracle_process()

    def run(self, batch: SeedBatch, printed: Callable[[], str]) -> BatchAnswer:
        """Return the answer to a batch; a failure of user code is a part of it."""
        import numpy as np

        from precreg.run.workers import imported_modules
        from precreg.subject import current_watch

        watch = current_watch()
        if watch is not None:
            watch.begin_case(imported_modules(batch.case, self.project))
        try:
            # Overflow and the like raise no warnings, because the comparison counts them.
            with np.errstate(all="ignore"):
                return self.compute(batch, self.project)
        except CaseFailed as failed:
            return BatchAnswer(batch.key, failure=failed.failure)
        finally:
            # The record names the changes that the case left in its own run.
            if watch is not None:
                watch.end_case()

    def decoder(self) -> msgpack.Decoder[BatchAnswer]:
        """Return the decoder of answers."""
        return msgpack.Decoder(BatchAnswer)

    def item_key(self, batch: SeedBatch) -> str:
        """Return the key of a batch."""
        return batch.key

    def answer_key(self, answer: BatchAnswer) -> str:
        """Return the key of an answer's batch."""
        return answer.key

    def timeout_s(self, batch: SeedBatch) -> float:
        """Return the time that the case allows for so many seeds; the first one runs twice."""
        case = batch.case
        of_seeds = case.timeout_s * (batch.number + 1) / (case.seeds * case.repeats)
        # Many seeds are in one batch only if they take about a second.
        return min(of_seeds, case.timeout_s + BATCH_PATIENCE_S)

    def give_up(self, batch: SeedBatch, failure: Failure) -> BatchAnswer:
        """Return the answer to a batch that has only a failure."""
        return BatchAnswer(batch.key, failure=failure)


def has_inputs(answer: BatchAnswer) -> bool:
    """Return whether a version ran on a batch without a failure."""
    return answer.failure is None


def leave_outputs(batch: SeedBatch, project: Path) -> BatchAnswer:
    """Run the accepted version on each seed, and write its outputs into the batch's file."""
    inputs, packed = [], []
    for drawn, outputs in _run_seeds(batch, project):
        inputs.append(_digest(drawn))
        packed.append([pack_array(name, array) for name, array in outputs.items()])
    batch.file.write_bytes(msgpack.encode(packed))
    return BatchAnswer(batch.key, tuple(inputs))


def measure_versions(batch: SeedBatch, project: Path) -> BatchAnswer:
    """Run the present version and the reference on each seed, and measure the outputs of both versions."""
    from precreg.run.case_run import suite_folder
    from precreg.run.oracle import run_oracle

    accepted = msgpack.decode(batch.file.read_bytes(), type=list[list[PackedArray]])
    directory = suite_folder(project, batch.case.directory)
    inputs, figures, unsteady = [], [], ""
    for place, (drawn, outputs) in enumerate(_run_seeds(batch, project)):
        inputs.append(_digest(drawn))
        former = dict(map(unpack_array, accepted[place]))
        if name := _unlike(former, outputs):
            return BatchAnswer(batch.key, tuple(inputs), missing=name)
        if place == 0 and batch.case.deterministic:
            unsteady = _unsteady(batch, drawn, outputs, project)
        with blame_failures(Reason.REFERENCE_ERROR):
            (oracle,) = run_oracle(batch.case, [batch.first + place], [drawn], directory, project).outputs
            figures.append({name: pair_figures(former[name], outputs[name], oracle[name]) for name in outputs})
    # Outputs may be large, and a look has many batches. Last, because a batch whose worker is lost runs again.
    batch.file.unlink()
    return BatchAnswer(batch.key, tuple(inputs), tuple(figures), unsteady)


def _run_seeds(batch: SeedBatch, project: Path) -> Iterator[tuple[Arrays, Arrays]]:
    """Yield the inputs and the subject's outputs of each seed. Raises CaseFailed."""
    from precreg.run.case_run import suite_folder
    from precreg.run.computation import draw_inputs

    directory = suite_folder(project, batch.case.directory)
    for seed in range(batch.first, batch.first + batch.number):
        with blame_failures(Reason.SUBJECT_ERROR):
            drawn = draw_inputs(batch.case, seed, directory, project)
            outputs = _run_subject(batch.case, drawn, project)
        yield drawn, outputs


def _run_subject(case: Case, inputs: Arrays, project: Path) -> Arrays:
    from precreg.run.case_run import run_subject_once, suite_folder
    from precreg.run.computation import arithmetic_of
    from precreg.subject import Call

    call = Call(inputs, case.params, suite_folder(project, case.directory), project, arithmetic_of(case, project))
    return run_subject_once(case, call).arrays


def _unsteady(batch: SeedBatch, inputs: Arrays, outputs: Arrays, project: Path) -> str:
    """Return the first output whose bits differ in a second run on the same inputs; empty if none does."""
    with blame_failures(Reason.SUBJECT_ERROR):
        again = _run_subject(batch.case, inputs, project)
    return next((name for name in outputs if not _same_bits(outputs[name], again.get(name))), "")


def _unlike(accepted: Arrays, present: Arrays) -> str:
    """Return the first output that the versions do not both have, in one shape and dtype; empty if they have all."""
    for name in dict.fromkeys((*present, *accepted)):
        one, other = accepted.get(name), present.get(name)
        if one is None or other is None or (one.shape, one.dtype) != (other.shape, other.dtype) or not one.size:
            return name
    return ""


def pair_figures(accepted: Any, present: Any, oracle: Any) -> PairOfFigures:
    """Return the figures of one output by both versions, measured by one oracle."""
    from precreg.measure import measure_pair, measure_seed

    if _same_bits(accepted, present):
        # Most harmless changes alter few seeds.
        figures = measure_seed(accepted, oracle)
        return PairOfFigures(figures, figures, same_bits=True)
    return PairOfFigures(*measure_pair(accepted, present, oracle), same_bits=False)


def _same_bits(one: Any, other: Any) -> bool:
    from precreg.storage import array_digest

    # By digests, because the padding of long doubles has any bits.
    return other is not None and array_digest(one) == array_digest(other)


def _digest(arrays: Arrays) -> str:
    from precreg.run.case_run import array_digests, combine_digests

    return combine_digests(array_digests(arrays))


def pack_array(name: str, array: Any) -> PackedArray:
    """Return the name, dtype, shape and bytes of an output."""
    # numpy's own text names numpy's dtypes, but calls the dtypes of ml_dtypes raw bytes.
    dtype = array.dtype.str if array.dtype.isbuiltin == 1 else array.dtype.name
    return name, dtype, array.shape, array.tobytes()


def unpack_array(packed: PackedArray) -> tuple[str, Any]:
    """Return the name of an output and its array."""
    import numpy as np

    from precreg.arithmetic import DTYPE_NAMES, numpy_dtype

    name, dtype, shape, data = packed
    found = numpy_dtype(dtype) if dtype in DTYPE_NAMES else np.dtype(dtype)
    return name, np.frombuffer(data, found).reshape(shape)
