"""Which cause did the old advice of `precreg compare` name for a planted cause?"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.diagnosis.execution import Arrays, good_outputs, planted_outputs
from benchmarks.diagnosis.judge import Answer, Score, classify
from benchmarks.diagnosis.kinds import CauseKind
from benchmarks.diagnosis.old_advice import advise_comparison
from benchmarks.diagnosis.plant import Plant
from benchmarks.diagnosis.project import oracle_of
from precreg.measure import compare_arrays

# Parts of the sentences of benchmarks/diagnosis/old_advice.py, and the kinds that each sentence names. Advice on
# tolerances names none, and a sentence without an entry here would be an error.
KINDS_OF_ADVICE: dict[str, frozenset[CauseKind]] = {
    "look for a copy or a conversion through it": frozenset({"input_cast", "intermediate_cast", "output_cast"}),
    "look for flush to zero": frozenset({"flush"}),
    "look for results that were never written": frozenset({"tail", "channel", "stale"}),
    "look at how the last block": frozenset({"tail", "boundary"}),
    "look for a wrong factor or constant": frozenset({"constant", "term", "divisor", "quantization_scale"}),
    "look for truncation in place of rounding": frozenset({"rounding_mode", "fewer_terms", "term"}),
    "look for a rounding to one side, or for a wrong constant": frozenset({"rounding_mode", "constant"}),
    "change the order, or widen the accumulator": frozenset({"accumulator", "sum_order"}),
    "look for arithmetic that saturates": frozenset({"saturation"}),
    "look for a partial result beyond the largest": frozenset({"saturation", "accumulator", "intermediate_cast"}),
    "look for 0/0": frozenset({"unstable_formula", "epsilon", "stale"}),
    "look for a maximum, minimum or sum that skips NaN": frozenset({"library"}),
    "judge values near 0 with atol": frozenset(),
}


def score_advice(plant: Plant) -> Score:
    """Compare the output with the largest relative error, and judge the old advice by kind alone."""
    good, bad = good_outputs(plant.kernel), planted_outputs(plant)
    name = max(good, key=lambda output: _distance(good[output], bad[output]))
    sentences = advise({"good": good[name], "bad": bad[name]})
    named = [kinds for sentence in sentences if (kinds := kinds_of_advice(sentence))]
    wanted = {kind for cause in plant.causes for kind in cause.kinds}
    right = [bool(kinds & wanted) for kinds in named]
    return Score(
        plant=plant.id,
        kind=plant.kind,
        half=plant.half,
        oracle=oracle_of(plant.kernel),
        beyond=plant.beyond,
        harmless=plant.harmless,
        outcome=classify(right, confident=bool(named)),
        answers=tuple(Answer(sentence, "", bool(kinds_of_advice(sentence) & wanted), False) for sentence in sentences),
    )


def kinds_of_advice(sentence: str) -> frozenset[CauseKind]:
    """Return the kinds that a sentence names."""
    found = [kinds for part, kinds in KINDS_OF_ADVICE.items() if part in sentence]
    if len(found) != 1:
        raise ValueError(f"expected a known sentence of advice, but got sentence={sentence!r}")
    return found[0]


def advise(pair: Arrays) -> list[str]:
    """Return the old sentences for a pair of a good and a bad array; none for a pair that `precreg compare` passes."""
    return advise_comparison(compare_arrays(pair["bad"], pair["good"], rtol=0, atol=0)) if _fails(pair) else []


def _fails(pair: Arrays) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        for name, array in pair.items():
            np.save(Path(folder) / f"{name}{_suffix(array)}.npy", array)
        good, bad = (f"{name}{_suffix(pair[name])}.npy" for name in ("good", "bad"))
        command = [sys.executable, "-m", "precreg", "compare", "--golden", good, "--actual", bad]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"precreg compare exits with {done.returncode}: {done.stdout}{done.stderr}")
    return done.returncode == 1


def _suffix(array: np.ndarray) -> str:
    # numpy stores bfloat16 as raw bytes, so the name of the file says it.
    return f".{array.dtype.name}" if array.dtype.kind == "V" else ""


def _distance(good: np.ndarray, bad: np.ndarray) -> float:
    wide, other = good.astype(np.float64), bad.astype(np.float64)
    return float(np.abs(wide - other).max() / (np.abs(wide).mean() or 1.0))
