"""What others call to compare two arrays, each through the function that its users call; and ourselves.

An adapter takes a pair and returns what is timed: a call that returns figures under our names (docs/metrics.md), or
`within`: whether everything is within rtol and atol, and `beyond`: how many are not.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

import precreg
from measuring.data import Pair
from measuring.naive import ATOL, RTOL, naive
from precreg.measure import compare_arrays
from precreg.storage import array_digest

Figures = dict[str, float]
Call = Callable[[], Figures]
GREATEST = re.compile(r"(?:Greatest|Max) (absolute|relative) difference[^:]*: (\S+)")
BEYOND = re.compile(r"Mismatched elements: (\d+) /")


class Peer(NamedTuple):
    """A way of comparing: its adapter, and the package that it needs beside numpy."""

    prepare: Callable[[Pair], Call]
    package: str = "numpy"
    module: str = "numpy"


def ours(pair: Pair, threads: int | None = 1, digest: bool = True) -> Call:
    """compare() with every metric, and the digest that a run keeps of the array."""

    def call() -> Figures:
        found = compare_arrays(*pair, rtol=RTOL, atol=ATOL, threads=threads)
        if digest:
            array_digest(pair.actual)
        return found.metrics | found.counts

    return call


def ours_in(pair: Pair, checkout: str, threads: int, digest: bool) -> Call:
    """Return `ours` by the package of a checkout; raise SystemExit if this process has another package."""
    if not Path(precreg.__file__).is_relative_to(checkout):
        raise SystemExit(f"expected the package of {checkout} but got {precreg.__file__}")
    return ours(pair, threads, digest)


def public_call(pair: Pair) -> Callable[[], object]:
    """precreg.compare(), whose figures nobody reads yet."""
    return lambda: precreg.compare(*pair, rtol=RTOL, atol=ATOL)


def public_figures(pair: Pair) -> Call:
    """precreg.compare(), and its metrics and counts."""

    def call() -> Figures:
        found = precreg.compare(*pair, rtol=RTOL, atol=ATOL)
        return found.metrics | found.counts

    return call


def allclose(pair: Pair) -> Call:
    """np.allclose: one bool."""
    return lambda: {"within": np.allclose(*pair, rtol=RTOL, atol=ATOL, equal_nan=True)}


def assert_allclose(pair: Pair) -> Call:
    """np.testing.assert_allclose: a bool, and a message where arrays differ."""
    return lambda: _told(lambda: np.testing.assert_allclose(*pair, rtol=RTOL, atol=ATOL))


def _told(check: Callable[[], object]) -> Figures:
    """Return what a check's message says."""
    try:
        check()
    except AssertionError as error:
        message = str(error)
        greatest = {f"max_{kind[:3]}_error": float(value) for kind, value in GREATEST.findall(message)}
        beyond = BEYOND.search(message)
        return {"within": False, **greatest, **({"beyond": float(beyond[1])} if beyond else {})}
    return {"within": True}


def assert_close(pair: Pair, threads: int = 1) -> Call:
    """torch.testing.assert_close on tensors that share the arrays' memory."""
    import torch

    actual, reference = map(torch.from_numpy, pair)
    check = partial(torch.testing.assert_close, rtol=RTOL, atol=ATOL, equal_nan=True, check_dtype=False)

    def call() -> Figures:
        torch.set_num_threads(threads)
        return _told(lambda: check(actual, reference))

    return call


def msprobe(pair: Pair) -> Call:
    """Do what msprobe's accuracy comparison does with two dumped tensors once they are read: six metrics."""
    with silence():
        from msprobe.core.common.const import CompareConst
        from msprobe.core.compare.npy_compare import CompareResult, ValidateTensor, compare_ops_apply

    def call() -> Figures:
        with silence():
            checked = ValidateTensor().check_tensor(CompareResult(*pair))
            found, _ = compare_ops_apply(
                checked.n_value, checked.b_value, checked.error_flag, checked.err_msg, CompareConst.ALL_COMPARE_INDEX
            )
        by_name = dict(zip(CompareConst.ALL_COMPARE_INDEX, found, strict=True))
        return {
            "cosine": by_name[CompareConst.COSINE],
            "rms_error": by_name[CompareConst.EUC_DIST] / pair.actual.size**0.5,
            "max_abs_error": by_name[CompareConst.MAX_ABS_ERR],
            "max_rel_error": by_name[CompareConst.MAX_RELATIVE_ERR],
            "share_rel_above_1e-3": 1 - by_name[CompareConst.ONE_THOUSANDTH_ERR_RATIO],
        }

    return call


def polygraphy(pair: Pair) -> Call:
    """Polygraphy's CompareFunc.simple on one output, with its default log."""
    from polygraphy.comparator import CompareFunc, IterationResult

    with silence():
        check = CompareFunc.simple(rtol=RTOL, atol=RTOL)
    outputs = [IterationResult({"out": array}) for array in pair]

    def call() -> Figures:
        with silence():
            found = check(*outputs)["out"].metric_values()
        return {
            "max_abs_error": found["max_absdiff"],
            "mean_abs_error": found["mean_absdiff"],
            "p50_abs_error": found["median_absdiff"],
            "max_rel_error": found["max_reldiff"],
            "mean_rel_error": found["mean_reldiff"],
            "p50_rel_error": found["median_reldiff"],
        }

    return call


def ndarrays_regression(pair: Pair) -> Call:
    """pytest-regressions' ndarrays_regression.check: it writes the actual array, and reads that and a stored one."""
    from pytest_regressions.ndarrays_regression import NDArraysRegressionFixture

    folder = tempfile.TemporaryDirectory()
    stored = Path(folder.name, "stored.npz")
    np.savez_compressed(stored, out=pair.reference)
    request = SimpleNamespace(
        config=SimpleNamespace(getoption=lambda name: False), node=SimpleNamespace(cls=None, name="test")
    )
    fixture = NDArraysRegressionFixture(Path(folder.name), Path(folder.name), request)

    def call() -> Figures:
        assert folder.name  # the folder lives as long as this function
        tolerance = {"rtol": RTOL, "atol": ATOL}
        return _told(lambda: fixture.check({"out": pair.actual}, fullpath=stored, default_tolerance=tolerance))

    return call


def naive_script(pair: Pair) -> Call:
    """Every metric of ours as one would compute it first."""

    def call() -> Figures:
        with np.errstate(all="ignore"):
            return naive(pair)

    return call


@contextmanager
def silence() -> Iterator[None]:
    """Keep what a peer prints from the table; it is still put together and written, as for its users."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        yield


PEERS = {
    "np.allclose": Peer(allclose),
    "np.testing.assert_allclose": Peer(assert_allclose),
    "torch.testing.assert_close": Peer(assert_close, "torch", "torch"),
    "msprobe, six metrics": Peer(msprobe, "mindstudio-probe", "msprobe"),
    "Polygraphy, CompareFunc.simple": Peer(polygraphy, "polygraphy", "polygraphy"),
    "pytest-regressions, ndarrays": Peer(ndarrays_regression, "pytest-regressions", "pytest_regressions"),
    "naive numpy script": Peer(naive_script),
}


def missing(peer: Peer) -> str:
    """Return why a peer cannot be asked; nothing where it can."""
    if importlib.util.find_spec(peer.module) is None:
        return f"not installed: {peer.package}"
    try:
        peer.prepare(Pair(np.ones(4, np.float32), np.ones(4, np.float32)))()
    except Exception as error:  # whatever does not work here is said in the table
        return f"does not run here: {type(error).__name__}: {error}"
    return ""


def versions() -> str:
    """Return Python's version and that of every package that is there."""
    packages = sorted({peer.package for peer in PEERS.values() if importlib.util.find_spec(peer.module)})
    return ", ".join([f"Python {sys.version.split()[0]}", *(f"{name} {version(name)}" for name in packages)])
