"""Which weights did a run of a training have after each step: stored in files, or yielded by a run?

A stored trajectory is a folder with one archive for each step, such as step-000012.npz, or one archive whose names
begin with the step: 12/layer1.weight. The name `loss` is the loss of the step, and `batch` a digest of its data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from precreg.errors import UserError
from precreg.storage import (
    find_arrays,
    is_archive,
    open_replacement,
    report_write_errors,
    to_native_byte_order,
    write_npz,
)
from precreg.subject import is_tensor, tensor_to_array
from precreg.training.divergence.distance import Weights
from precreg.types import BatchDifference

LOSS, BATCH = "loss", "batch"
_NUMBER = re.compile(r"\d+")
_EXAMPLE = "store one archive for each step: run/step-000012.npz"


class TrajectoryStep(NamedTuple):
    """The weights after a step, by name, with the loss and a digest of the batch that gave the step, if known."""

    step: int
    weights: Weights
    loss: float | None = None
    batch: str | None = None


class TrainingSource(NamedTuple):
    """A training that precreg can run: its function, folder and project, and the settings of the run."""

    name: str
    target: str
    directory: Path
    project: Path
    params: Mapping[str, Any] = {}
    device: str | None = None
    dtype: str | None = None


class StoredTrajectory:
    """Give the steps of a stored run, one at a time: a trajectory may be larger than the memory."""

    def __init__(self, name: str, loaders: Mapping[int, Callable[[], dict[str, NDArray[Any]]]]) -> None:
        self.name = name
        self._loaders = {step: loaders[step] for step in sorted(loaders)}

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of the stored steps, in order."""
        return tuple(self._loaders)

    def load(self, step: int) -> TrajectoryStep:
        """Read one step. Raises UserError as the reader of the format does, and not-comparable for a bad loss."""
        arrays = self._loaders[step]()
        loss, batch = arrays.pop(LOSS, None), arrays.pop(BATCH, None)
        if loss is not None and loss.size != 1:
            message = f"expected one number as the loss of step {step} but got an array of shape {loss.shape}"
            raise UserError("not-comparable", f"{message} in {self.name}", hint="store the mean: loss=losses.mean()")
        return TrajectoryStep(
            step,
            arrays,
            None if loss is None else float(loss.reshape(()).astype(np.float64)),
            None if batch is None else np.ascontiguousarray(batch).tobytes().decode(errors="replace"),
        )

    def __iter__(self) -> Iterator[TrajectoryStep]:
        return map(self.load, self._loaders)


def read_trajectory(path: Path, shown: str) -> StoredTrajectory:
    """Find the steps of a stored run. Raises UserError: not-comparable for files without steps, missing-file."""
    if not path.exists():
        hint = f"{_EXAMPLE}; or name a training: precreg divergence {path.stem or 'trainings'}:train"
        raise UserError("missing-file", f"expected a stored run but there is none: {shown}", hint=hint)
    found = _folder_steps(path, shown) if path.is_dir() else _archive_steps(path, shown)
    if not found:
        message = f"expected weights by step but got no file or name with the number of a step in {shown}"
        raise UserError("not-comparable", message, hint=_EXAMPLE)
    return StoredTrajectory(shown, found)


def _folder_steps(folder: Path, shown: str) -> dict[int, Callable[[], dict[str, NDArray[Any]]]]:
    found: dict[int, Callable[[], dict[str, NDArray[Any]]]] = {}
    files: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        numbers = _NUMBER.findall(path.stem)
        if not is_archive(path.name) or not path.is_file() or not numbers:
            continue
        # The last number: checkpoints have names such as resnet50-step-12.
        step = int(numbers[-1][:18])
        if step in files:
            message = f"expected one file for step {step} but got {files[step].name} and {path.name} in {shown}"
            raise UserError("not-comparable", message, hint=_EXAMPLE)
        files[step] = path
        found[step] = partial(_load_archive, path)
    return found


def _load_archive(path: Path) -> dict[str, NDArray[Any]]:
    return {name: to_native_byte_order(found.load()) for name, found in find_arrays(path, str(path)).items()}


def _archive_steps(path: Path, shown: str) -> dict[int, Callable[[], dict[str, NDArray[Any]]]]:
    if not is_archive(path.name):
        message = f"expected a folder, .npz, .safetensors or .pt of weights by step but got {shown}"
        raise UserError("not-comparable", message, hint=_EXAMPLE)
    members: dict[int, dict[str, Any]] = {}
    for name, array in find_arrays(path, shown).items():
        first, slash, rest = name.partition("/")
        numbers = _NUMBER.findall(first)
        if slash and numbers:
            members.setdefault(int(numbers[-1][:18]), {})[rest] = array
    return {step: partial(_load_members, arrays) for step, arrays in members.items()}


def _load_members(members: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    return {name: to_native_byte_order(found.load()) for name, found in members.items()}


class TrajectoryWriter:
    """Store the weights of a training, one file for each step. `record_trajectory` makes one."""

    def __init__(self, folder: Path, every: int) -> None:
        self.folder, self.every = folder, every
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Keep the steps that were stored; each is complete."""

    def step(self, weights: Any, *, loss: Any = None, batch: Any = None, step: int | None = None) -> None:
        """Store the weights after a step; steps count from 0, which is the state before the first update.

        Args:
            weights: a module of torch, or arrays or tensors by name.
            loss: the loss that gave the step.
            batch: the data that gave the step: an array, a tensor, or a tuple of them. Only a digest is stored.
            step: the number of the step; by default one more than that of the last call.

        Raises:
            UserError: bad-value, not-writable.
        """
        number = self._next if step is None else step
        self._next = number + 1
        if number % self.every == 0:
            digest = None if batch is None else batch_digest(batch)
            self.add(TrajectoryStep(number, named_weights(weights), read_scalar(loss), digest))

    def add(self, step: TrajectoryStep) -> None:
        """Store one step as it is. Raises UserError: not-writable."""
        arrays = {name: np.asarray(array) for name, array in step.weights.items()}
        if step.loss is not None:
            arrays[LOSS] = np.asarray(step.loss, np.float64)
        if step.batch is not None:
            arrays[BATCH] = np.frombuffer(step.batch.encode(), np.uint8)
        path = self.folder / f"step-{step.step:06}.npz"
        with report_write_errors(str(path)), open_replacement(path) as stream:
            write_npz(stream, arrays)


def record_trajectory(folder: str | Path, *, every: int = 1) -> TrajectoryWriter:
    """Return a writer of the weights of a training, for `precreg divergence`.

    Args:
        folder: the folder of the steps; precreg makes it. It must be empty.
        every: store step 0 and every Nth after it.

    Raises:
        UserError: bad-value, not-writable.
    """
    place = Path(folder)
    if every < 1:
        raise UserError("bad-value", f"expected every >= 1 but got every={every}", hint="store each step: every=1")
    with report_write_errors(str(place)):
        place.mkdir(parents=True, exist_ok=True)
        is_empty = next(place.iterdir(), None) is None
    if not is_empty:
        message = f"expected an empty folder for a run but got files in {place}"
        raise UserError("bad-value", message, hint=f"give each run a folder of its own: {place}-2")
    return TrajectoryWriter(place, every)


def named_weights(weights: Any) -> dict[str, NDArray[Any]]:
    """Return copies of the weights of a module of torch, or of arrays and tensors by name.

    Raises UserError: bad-value.
    """
    items = dict(weights.named_parameters()) if hasattr(weights, "named_parameters") else weights
    if not isinstance(items, Mapping):
        message = f"expected weights by name but got {type(items).__name__}"
        raise UserError("bad-value", message, hint='name them: {"w1": w1, "w2": w2}')
    found = {str(name): _plain(name, value) for name, value in items.items()}
    if reserved := {LOSS, BATCH} & set(found):
        message = f"expected other names of weights than loss and batch but got {', '.join(sorted(reserved))}"
        raise UserError("bad-value", message, hint='give the loss apart: yield {"w1": w1}, loss')
    return found


def _plain(name: object, value: Any) -> NDArray[Any]:
    if is_tensor(value):
        return tensor_to_array(value, f"weight {name}", "bad-value")
    # A copy without the subclass: a simulated array would compute the distances by its device.
    array = np.array(value, subok=False, order="C")
    if array.dtype.kind not in "biufcV":
        message = f"expected a weight of numbers but got {name} of dtype={array.dtype}"
        raise UserError("bad-value", message, hint="give arrays of numbers: numpy.asarray(weight, numpy.float32)")
    return array


def read_scalar(loss: Any) -> float | None:
    """Return a loss as a float: a number, or an array or a tensor of one; None stays None."""
    if loss is None:
        return None
    return float(loss.detach()) if is_tensor(loss) else float(np.asarray(loss).reshape(()).astype(np.float64))


def batch_digest(batch: Any) -> str:
    """Return the dtypes of the arrays, tensors or numbers of a batch, and a digest of their bits, as float32:c1d2.

    Digests of other dtypes are not comparable: a cast changes all bits. Raises UserError: bad-value.
    """
    from hashlib import blake2b

    digest = blake2b(digest_size=8)
    dtypes: dict[str, None] = {}
    for part in batch.values() if isinstance(batch, Mapping) else _parts(batch):
        array = tensor_to_array(part, "batch", "bad-value") if is_tensor(part) else np.array(part, subok=False)
        dtypes[array.dtype.name] = None
        digest.update(f"{array.shape}".encode() + array.tobytes())
    return f"{','.join(dtypes)}:{digest.hexdigest()}"


def compare_batches(a: Sequence[str | None], b: Sequence[str | None]) -> BatchDifference | None:
    """Return whether two runs saw the same batches in another order, or others; None for the same, or not known."""
    both = zip(a, b, strict=True)
    # Digests begin with the dtypes, and digests of other dtypes say nothing.
    known = [(a, b) for a, b in both if a and b and a.partition(":")[0] == b.partition(":")[0]]
    if all(a == b for a, b in known):
        return None
    first, second = (Counter(each) for each in zip(*known, strict=True))
    # Runs of unequal length, or stopped within an epoch, share most batches, not all.
    shared = sum((first & second).values())
    return "batch_order" if 2 * shared >= len(known) or set(first) & set(second) else "different_data"


def _parts(batch: Any) -> tuple[Any, ...]:
    return tuple(batch) if isinstance(batch, tuple | list) else (batch,)
