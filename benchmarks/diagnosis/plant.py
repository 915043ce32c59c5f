"""Which values describe a planted cause, and how is it planted into the source of a kernel?"""

from __future__ import annotations

from difflib import ndiff
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from benchmarks.diagnosis.kinds import NEAR_KINDS, CauseKind

Half: TypeAlias = Literal["develop", "held_out"]
Edit: TypeAlias = tuple[str, str]

KERNELS = Path(__file__).parent / "kernels"
# Formats that are no dtypes of numpy itself: a source that uses one imports it.
IMPORTED_FORMATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")

# The halves are split by kernel. Authors of rewrites look at results of the first half alone.
HALVES: dict[str, Half] = {
    "adam": "develop",
    "rms_norm": "develop",
    "softmax": "develop",
    "cross_entropy": "develop",
    "matmul": "develop",
    "conv1d": "develop",
    "quantize": "develop",
    "running_sum": "develop",
    "exponential": "develop",
    "cosine": "develop",
    "resize": "develop",
    "momentum": "develop",
    "segment_mean": "develop",
    "unscale": "develop",
    "swiglu": "develop",
    "layer_norm": "held_out",
    "log_sum_exp": "held_out",
    "gelu": "held_out",
    "attention": "held_out",
    "linear": "held_out",
    "batch_norm": "held_out",
    "int8_linear": "held_out",
    "fir": "held_out",
    "welford": "held_out",
    "newton_sqrt": "held_out",
    "rotary": "held_out",
    "distances": "held_out",
    "moving_average": "held_out",
    "hadamard": "held_out",
    "top_mean": "held_out",
}


class PlantedCause(NamedTuple):
    """A mistake in the source of a kernel, and the answers that name it."""

    name: str
    kind: CauseKind
    # Each text occurs once in the good source and is replaced.
    edits: tuple[Edit, ...]
    # Kinds that are right answers, too, beside `kind` and the near ones.
    accepts: frozenset[CauseKind] = frozenset()
    # Parts of further guilty lines: of the kernel, or the same step in the formula in float64.
    also: tuple[str, ...] = ()
    # The guilty input, param or output.
    names: frozenset[str] = frozenset()

    @property
    def kinds(self) -> frozenset[CauseKind]:
        """Return all kinds that are right answers."""
        return frozenset({self.kind}) | self.accepts | NEAR_KINDS.get(self.kind, frozenset())


class Plant(NamedTuple):
    """One or two causes in a kernel."""

    kernel: str
    causes: tuple[PlantedCause, ...]
    # The author expects that no general rewrite gives these bits.
    beyond: bool = False
    # Another order of a sum, as accurate as before: silence is right, and so is the kind `sum_order`.
    harmless: bool = False

    @property
    def id(self) -> str:
        """Return the name of the plant: that of its kernel and those of its causes."""
        return f"{self.kernel}/{'+'.join(cause.name for cause in self.causes)}"

    @property
    def kind(self) -> str:
        """Return the kind in tables."""
        return self.causes[0].kind if len(self.causes) == 1 else "two causes"

    @property
    def half(self) -> Half:
        """Return the half that the kernel belongs to."""
        return HALVES[self.kernel]

    @property
    def line(self) -> str:
        """Return the first line of the planted source that differs from the good one; a dropped line, if none does."""
        good, bad = (source.splitlines() for source in (good_source(self.kernel), planted_source(self)))
        added = [line for line in bad if line not in good and not line.startswith(("import ", "from "))]
        return (added or [line for line in good if line not in bad])[0].strip()


def plant(
    kernel: str,
    name: str,
    kind: CauseKind,
    *edits: Edit,
    accepts: tuple[CauseKind, ...] = (),
    also: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
    beyond: bool = False,
    harmless: bool = False,
) -> Plant:
    """Make a plant with one cause."""
    cause = PlantedCause(name, kind, edits, frozenset(accepts), also, frozenset(names))
    return Plant(kernel, (cause,), beyond, harmless)


def join(first: Plant, second: Plant) -> Plant:
    """Make a plant of the causes of two plants of one kernel."""
    assert first.kernel == second.kernel
    return Plant(first.kernel, first.causes + second.causes, beyond=first.beyond or second.beyond)


def good_source(kernel: str) -> str:
    """Read the source of a kernel without a mistake."""
    return (KERNELS / f"{kernel}.py").read_text(encoding="utf-8")


def planted_source(planted: Plant) -> str:
    """Return the source of the kernel with the plant's causes."""
    return _edited(planted, planted.causes)


def guilty_lines(planted: Plant, cause: PlantedCause) -> frozenset[str]:
    """Return the lines that name a cause, stripped: of the good source, of the planted one, and of its `also`."""
    good, bad = good_source(planted.kernel), planted_source(planted)
    others = _edited(planted, tuple(other for other in planted.causes if other is not cause))
    lines = _changed_lines(others, bad, "+") | _changed_lines(good, _edited(planted, (cause,)), "-")
    for part in cause.also:
        found = {line.strip() for line in good.splitlines() if part in line}
        if not found:
            raise ValueError(f"{planted.id}: expected a part of a line, but got also={part!r}")
        lines |= found
    return frozenset(lines)


def _edited(planted: Plant, causes: tuple[PlantedCause, ...]) -> str:
    good = source = good_source(planted.kernel)
    for before, after in (edit for cause in causes for edit in cause.edits):
        if good.count(before) != 1 or source.count(before) != 1:
            raise ValueError(f"{planted.id}: expected the text once in the source, but got before={before!r}")
        source = source.replace(before, after)
    missing = [name for name in IMPORTED_FORMATS if name in source and name not in good]
    if missing:
        formats = f"from ml_dtypes import {', '.join(missing)}\n"
        source = source.replace("import numpy as np\n", f"import numpy as np\n{formats}")
    return source


def _changed_lines(old: str, new: str, mark: Literal["+", "-"]) -> set[str]:
    """Return the lines that `new` adds (+) or removes (-), without imports."""
    changes = ndiff(old.splitlines(), new.splitlines())
    lines = {line[2:].strip() for line in changes if line.startswith(f"{mark} ")}
    return {line for line in lines if line and not line.startswith(("import ", "from "))}
