"""Which upstream threads are about a change of precision? A search of the trackers showed each of them.

The text of a thread is about the function. The link to the release is inferred: its bits changed in that release.
"""

from __future__ import annotations

from changes import Change

NUMPY = "https://github.com/numpy/numpy"
SCIPY = "https://github.com/scipy/scipy"
ORT = "https://github.com/microsoft/onnxruntime"
# Threads by package, release, functions and dtypes. An empty tuple of dtypes means all.
_THREADS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    ("numpy", "1.24.0", ("power",), (), (f"{NUMPY}/pull/22240", f"{NUMPY}/issues/23289")),
    ("numpy", "1.24.0", ("arctan2",), (), (f"{NUMPY}/pull/22240",)),
    ("numpy", "1.25.0", ("sin", "cos"), ("float64",), (f"{NUMPY}/pull/23399", f"{NUMPY}/pull/23925")),
    ("numpy", "1.25.0", ("multiply", "square", "absolute"), ("complex64", "complex128"), (f"{NUMPY}/pull/21056",)),
    (
        "numpy",
        "2.0.0",
        # The functions of the benchmark in the thread, and their neighbours in the same file of numpy.
        (
            *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tan", "arcsin", "arccos", "arctan", "sinh"),
            *("cosh", "cbrt", "power", "arctan2"),
        ),
        ("float64",),
        (f"{NUMPY}/pull/24006",),
    ),
    (
        "numpy",
        "2.0.0",
        ("fft.fft", "fft.ifft", "fft.rfft"),
        ("float32", "complex64"),
        (f"{NUMPY}/issues/17801", f"{NUMPY}/issues/23522"),
    ),
    ("scipy", "1.10.0", ("special.erfinv",), ("float64",), (f"{SCIPY}/pull/16017",)),
    ("scipy", "1.12.0", ("special.betainc",), ("float64",), (f"{SCIPY}/pull/17697",)),
    ("scipy", "1.14.0", ("special.boxcox",), ("float64",), (f"{SCIPY}/pull/20073",)),
    ("scipy", "1.15.0", ("special.logit",), (), (f"{SCIPY}/pull/21388",)),
    ("scipy", "1.17.0", ("stats.t.cdf", "stats.t.sf"), (), (f"{SCIPY}/pull/22962",)),
    ("scipy", "1.17.0", ("stats.f.cdf",), (), (f"{SCIPY}/pull/22699",)),
    # The thread reports the time of the new float16 kernel; 1.30.0 gives the bits of 1.28.0 again.
    ("onnxruntime", "1.29.0", ("Gemm",), ("float16",), (f"{ORT}/issues/32255",)),
    ("onnxruntime", "1.30.0", ("Gemm",), ("float16",), (f"{ORT}/issues/32255",)),
)


def threads_of(change: Change) -> list[str]:
    """Return the links of the threads about a change, in Markdown."""
    name = change.after["function"].split(" ")[0].removeprefix(f"{change.package}.")
    return [
        f"[#{url.rsplit('/', 1)[1]}]({url})"
        for package, release, functions, dtypes, urls in _THREADS
        if (package, release) == (change.package, change.after["release"]) and name in functions
        if not dtypes or change.after["dtype"] in dtypes
        for url in urls
    ]
