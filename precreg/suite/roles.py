"""Where do the results of a suite come from, and which keys have no meaning beside that?

A suite computes a subject, or it has recorded files, a table of recorded figures, or a folder of ONNX backend tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from precreg.storage import Source
from precreg.suite.files import CaseEntry, StochasticEntry, SuiteFile
from precreg.types import Stochastic


def check_roles(source: Source, file: SuiteFile) -> None:
    """Require a subject with a reference or golden, or files in their place, and reasons for known failures."""
    if file.table is not None:
        _check_table(source, file)
    elif file.files is not None:
        _check_recorded(source, file)
        oracles = [key for key in ("reference", "golden") if getattr(file.files, key) is not None]
        _refuse_two_oracles(source, oracles, "files")
        if not oracles:
            raise source.error(
                "missing-key",
                "expected reference: or golden: but neither is there",
                "files",
                hint="add one to files:, such as files: {actual: 'out/*.npy', golden: 'ref/*.npy'}",
            )
    elif file.onnx_tests is not None:
        _refuse_keys(source, "onnx_tests", (*_COMPUTING_KEYS, "matrix", "baseline_of"))
    elif file.subject is None:
        raise source.error(
            "missing-key",
            "expected subject:, files: or table: but none is there",
            "suite",
            hint="add the function to test: subject: kernels:mean",
        )
    else:
        # A suite without either has the reference of its kind of subject, if that has one (`default_reference`).
        _refuse_two_oracles(source, [key for key in ("reference", "golden") if getattr(file, key) is not None])
    _check_expectation(source, file.expect, file.reason)
    for index, entry in enumerate(file.cases):
        _check_expectation(source, entry.expect, entry.reason, "cases", index)
    _check_determinism(source, file)


def _check_determinism(source: Source, file: SuiteFile) -> None:
    """Refuse `exact: true` together with `deterministic: false`, because repeats of such cases may differ in bits."""
    loose: list[tuple[str | int, ...]] = [("deterministic",)] if not file.deterministic else []
    loose += [("cases", at, "deterministic") for at, entry in enumerate(file.cases) if entry.deterministic is False]
    if file.exact and loose:
        raise source.error(
            "bad-value",
            "expected exact: true or deterministic: false but got both",
            *loose[0],
            hint="remove exact: true, or deterministic: false",
        )


def _check_recorded(source: Source, file: SuiteFile) -> None:
    """Refuse keys that have no meaning for recorded files, because precreg draws no inputs and calls no function."""
    _refuse_keys(source, "files", (*_COMPUTING_KEYS, "repeats", "onnx_tests"))
    for index, entry in enumerate(file.cases):
        if entry.seeds is not None:
            message = f"expected no seeds for recorded files but got seeds={entry.seeds}"
            raise source.error(
                "bad-value",
                message,
                "cases",
                index,
                "seeds",
                hint="remove seeds:, because files are compared as they are",
            )
        _refuse_samples(source, entry, index)


def _check_table(source: Source, file: SuiteFile) -> None:
    """Refuse keys that have no meaning for recorded figures, because precreg computes nothing and sees no array."""
    keys = ("files", "onnx_tests", *_COMPUTING_KEYS, "matrix", "repeats", "deterministic", "analyzers", "baseline_of")
    _refuse_keys(source, "table", (*keys, "budget"))
    for index, entry in enumerate(file.cases):
        for key in ("seeds", "deterministic"):
            if getattr(entry, key) is not None:
                message = f"expected no {key} for recorded figures but got {key}={getattr(entry, key)}"
                raise source.error(
                    "bad-value",
                    message,
                    "cases",
                    index,
                    key,
                    hint=f"remove {key}:, because figures are compared as they are",
                )
        _refuse_samples(source, entry, index)


def _refuse_samples(source: Source, entry: CaseEntry, index: int) -> None:
    if entry.stochastic is not None:
        message = "expected a subject that precreg runs beside stochastic but got recorded results"
        raise source.error(
            "bad-value",
            message,
            "cases",
            index,
            "stochastic",
            hint="remove stochastic:, or compute with subject: module:function",
        )


def read_stochastic(source: Source, entry: StochasticEntry, kind: str, *path: str | int) -> Stochastic:
    """Return the samples of a case whose subject has this kind; `path` leads to the entry.

    Raises UserError (bad-value) for noise that cannot reach the subject, and for a statement that the samples do not
    support.
    """
    is_python = kind == "python"
    noise = entry.noise or ("rounding" if is_python else "inputs")
    if noise == "rounding" and not is_python:
        message = f"expected noise: inputs, because only a Python subject rounds at random, but got subject={kind}"
        raise source.error(
            "bad-value",
            f"{message} with noise=rounding",
            *path,
            "noise",
            hint="write noise: inputs, such as stochastic: {samples: 30, noise: inputs}",
        )
    if entry.against == "oracle" and entry.method == "normal":
        message = (
            "expected method: general beside against: oracle, because a spread shows no bias, but got method=normal"
        )
        raise source.error("bad-value", message, *path, "against", hint="write method: general, or remove against:")
    settings = Stochastic(
        entry.samples, noise, entry.method, entry.against, entry.error, entry.probability, entry.confidence
    )
    if entry.method == "general" and entry.samples < settings.min_general_samples:
        statement = f"probability {entry.probability:g} and confidence {entry.confidence:g}"
        message = f"expected samples: {settings.min_general_samples} or more for {statement} by method: general"
        raise source.error(
            "bad-value",
            f"{message} but got samples={entry.samples}",
            *path,
            "samples",
            hint=f"write samples: {settings.min_general_samples}",
        )
    return settings


# Keys of suites that draw inputs and compute.
_ORACLE_KEYS = ("reference", "reference_dtype", "golden", "benchmark")
_COMPUTING_KEYS = ("subject", *_ORACLE_KEYS, "inputs", "params", "ranges", "device", "study", "seeds", "stochastic")


def _refuse_keys(source: Source, beside: str, keys: Sequence[str]) -> None:
    # The check reads the file and not the struct, because the struct does not show if a value is a default.
    for key in keys:
        if key in source.data:
            raise source.error(
                "bad-value", f"expected {key} or {beside} but got both", key, hint=f"remove {key}: or {beside}:"
            )


def _refuse_two_oracles(source: Source, given: list[str], *path: str) -> None:
    if len(given) == 2:
        raise source.error(
            "bad-value",
            "expected reference or golden but got both",
            *path,
            "golden",
            hint="keep reference: for an exact result, or golden: for a result in the same dtype",
        )


def _check_expectation(source: Source, expect: str | None, reason: str | None, *path: str | int) -> None:
    if expect == "fail" and not reason:
        raise source.error(
            "missing-key",
            "expected reason: beside expect but got expect=fail alone",
            *path,
            "expect",
            hint="add the reason: reason: the kernel truncates, issue 12",
        )
    if reason and expect != "fail":
        message = f"expected expect: fail beside reason but got reason={reason} without it"
        raise source.error("missing-key", message, *path, "reason", hint="add expect: fail, or remove reason:")
