"""Which functions does the release watch compute, and on which inputs?

This module runs in the environment of each watched release, so it needs only numpy there. Inputs are made of integers
by a fixed recipe in Python, so they have the same bits in all releases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np

_WORD = (1 << 64) - 1
HALF, SINGLE, DOUBLE = "float16", "float32", "float64"
REAL = (HALF, SINGLE, DOUBLE)
WIDE = (SINGLE, DOUBLE)
COMPLEX = ("complex64", "complex128")
# At so many points the mean ULP of an elementwise function has a standard error of about 2 %.
POINTS = 2000
Scale = Literal["elements", "array"]


@cache
def random_integers(stream: int, count: int) -> tuple[int, ...]:
    """Return integers below 2^53 of splitmix64 (Steele, Lea and Flood 2014)."""
    state, numbers = (stream + 1) * 0x5851F42D4C957F2D & _WORD, []
    for _ in range(count):
        state = state + 0x9E3779B97F4A7C15 & _WORD
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _WORD
        numbers.append((mixed ^ mixed >> 31) >> 11)
    return tuple(numbers)


@dataclass(frozen=True)
class Draw:
    """Describe one input array: uniform numbers in [low, high), or with `octaves` numbers of exponents in this range.

    `dominant` adds a number to the diagonal of a matrix, so that it is well conditioned.
    """

    low: float
    high: float
    shape: tuple[int, ...] = (POINTS,)
    octaves: bool = False
    dominant: float = 0.0
    symmetric: bool = False
    stream: int = 0

    def array(self, dtype: str) -> Any:
        """Return the array. The numbers are float64 first, and rounded once to the dtype."""
        count = math.prod(self.shape)
        if dtype in COMPLEX:
            real, imaginary = (replace_stream(self, self.stream + k).array(DOUBLE) for k in (0, 7))
            return (real + 1j * imaginary).astype(dtype)
        numbers = np.array([self._number(k) for k in random_integers(self.stream, count)]).reshape(self.shape)
        if self.symmetric:
            numbers = (numbers + np.swapaxes(numbers, -1, -2)) / 2
        if self.dominant:
            numbers = numbers + self.dominant * np.eye(self.shape[-1])
        return numbers.astype(dtype)

    def _number(self, k: int) -> float:
        if self.octaves:
            # The lowest bits choose the octave, the others the place in it.
            return math.ldexp(1 + math.ldexp(k, -53), int(self.low) + k % int(self.high - self.low))
        return self.low + (self.high - self.low) * math.ldexp(k, -53)


def replace_stream(draw: Draw, stream: int) -> Draw:
    """Return the draw with other random integers."""
    return Draw(draw.low, draw.high, draw.shape, draw.octaves, draw.dominant, draw.symmetric, stream)


@dataclass(frozen=True)
class Function:
    """Describe one watched function.

    `path` is where the package has it, or the type of an ONNX operator. `exact` names its exact counterpart in
    exact.py. `scale` says how the page compares releases: by the ULP of each element, or by the RMS error of the array
    where single elements cancel.
    """

    name: str
    path: str
    inputs: tuple[Draw, ...]
    dtypes: tuple[str, ...]
    exact: str
    options: Mapping[str, Any] = field(default_factory=dict)
    scale: Scale = "elements"

    def arrays(self, dtype: str) -> list[Any]:
        """Return the inputs in a dtype."""
        return [replace_stream(draw, draw.stream + 17 * place).array(dtype) for place, draw in enumerate(self.inputs)]


def _unary(package: str, ranges: Mapping[str, tuple[float, float]], dtypes: tuple[str, ...]) -> list[Function]:
    """Describe functions of one argument, each on its range. `name@note` is a second range of one function."""
    return [
        Function(
            f"{package}.{name.replace('@', ' ')}",
            f"{package}.{name.partition('@')[0]}",
            (Draw(low, high),),
            dtypes,
            name.partition("@")[0],
        )
        for name, (low, high) in ranges.items()
    ]


_ELEMENTWISE = {
    "exp": (-9, 11),
    "exp2": (-14, 15),
    "expm1": (-1, 1),
    "log": (0.01, 4),
    "log2": (0.01, 4),
    "log10": (0.01, 4),
    "log1p": (-0.5, 1),
    "sin": (-8, 8),
    "cos": (-8, 8),
    "tan": (-8, 8),
    "arcsin": (-1, 1),
    "arccos": (-1, 1),
    "arctan": (-8, 8),
    "sinh": (-4, 4),
    "cosh": (-4, 4),
    "tanh": (-4, 4),
    "arcsinh": (-8, 8),
    "arccosh": (1, 8),
    "arctanh": (-1, 1),
    "cbrt": (-8, 8),
    "sqrt": (0, 8),
}
_ELEMENTWISE_WIDE = {
    "exp@wide": (-87, 88),
    "sin@large": (-1e5, 1e5),
    "cos@large": (-1e5, 1e5),
    "tan@large": (-1e5, 1e5),
    "exp2@wide": (-120, 120),
    "sinh@wide": (-80, 80),
    "cosh@wide": (-80, 80),
    "tanh@small": (-0.01, 0.01),
}


def _numpy_elementwise() -> list[Function]:
    """Describe the elementwise functions of numpy."""
    positive, signed = Draw(0.01, 8), Draw(-4, 4)
    tiny_to_large = Draw(-40, 40, octaves=True)
    return [
        *_unary("numpy", _ELEMENTWISE, REAL),
        *_unary("numpy", _ELEMENTWISE_WIDE, WIDE),
        Function("numpy.log octaves", "numpy.log", (tiny_to_large,), WIDE, "log"),
        Function("numpy.cbrt octaves", "numpy.cbrt", (tiny_to_large,), WIDE, "cbrt"),
        Function("numpy.power", "numpy.power", (positive, signed), REAL, "power"),
        Function("numpy.hypot", "numpy.hypot", (signed, signed), REAL, "hypot"),
        Function("numpy.arctan2", "numpy.arctan2", (signed, signed), REAL, "arctan2"),
        Function("numpy.logaddexp", "numpy.logaddexp", (signed, signed), REAL, "logaddexp"),
        Function("numpy.logaddexp2", "numpy.logaddexp2", (signed, signed), REAL, "logaddexp2"),
        *(
            Function(f"numpy.{name}", f"numpy.{name}", (signed,), COMPLEX, name)
            for name in ("exp", "log", "sqrt", "sin", "tanh", "square", "absolute")
        ),
        Function("numpy.multiply", "numpy.multiply", (signed, signed), COMPLEX, "multiply"),
        Function("numpy.divide", "numpy.divide", (signed, signed), COMPLEX, "divide"),
    ]


def _numpy_arrays() -> list[Function]:
    """Describe the reductions, the linear algebra and the transforms of numpy."""
    rows, left, right = Draw(0, 1, (100, 1000)), Draw(-1, 1, (24, 120)), Draw(-1, 1, (120, 24))
    last, first = {"axis": -1}, {"axis": 0}
    tall = Draw(0, 1, (1000, 100))
    matrix, vector = Draw(-1, 1, (20, 20), dominant=4.0), Draw(-1, 1, (20, 20))
    symmetric = Draw(-1, 1, (20, 20), dominant=8.0, symmetric=True)
    signal = Draw(-1, 1, (6, 120))
    reductions = [
        Function(f"numpy.{name}", f"numpy.{name}", (rows,), REAL, name, last)
        for name in ("sum", "mean", "var", "std", "cumsum")
    ]
    reductions += [
        Function(f"numpy.{name} axis 0", f"numpy.{name}", (tall,), REAL, name, first) for name in ("sum", "mean")
    ]
    reductions += [
        Function("numpy.prod", "numpy.prod", (Draw(0.95, 1.05, (100, 100)),), REAL, "prod", last),
        Function("numpy.linalg.norm", "numpy.linalg.norm", (rows,), REAL[1:], "norm", last),
    ]
    pairs = [
        Function(
            "numpy.dot",
            "numpy.dot",
            (Draw(-1, 1, (200, 120)), Draw(-1, 1, (120,))),
            REAL + COMPLEX,
            "matmul",
            {},
            "array",
        ),
        Function("numpy.matmul", "numpy.matmul", (left, right), REAL + COMPLEX, "matmul", {}, "array"),
        Function("numpy.inner", "numpy.inner", (Draw(0, 1, (100, 500)), Draw(0, 1, (500,))), REAL, "matmul"),
    ]
    linalg = [
        Function(f"numpy.linalg.{name}", f"numpy.linalg.{name}", inputs, WIDE, name, options, "array")
        for name, inputs, options in (
            ("solve", (matrix, vector), {}),
            ("inv", (matrix,), {}),
            ("svd", (matrix,), {"compute_uv": False}),
            ("det", (Draw(-1, 1, (100, 6, 6), dominant=3.0),), {}),
            ("cholesky", (symmetric,), {}),
            ("eigvalsh", (symmetric,), {}),
        )
    ]
    return reductions + pairs + linalg + _transforms("numpy.fft", ("fft", "ifft", "rfft"), signal)


def _transforms(package: str, names: tuple[str, ...], signal: Draw) -> list[Function]:
    """Describe transforms of real and of complex signals."""
    return [
        Function(f"{package}.{name}", f"{package}.{name}", (signal,), dtypes, name, {}, "array")
        for name in names
        for dtypes in [WIDE if name in ("rfft", "dct") else WIDE + COMPLEX]
    ]


_SPECIAL = {
    "gamma": (0.1, 12),
    "gammaln": (0.1, 40),
    "digamma": (0.1, 12),
    "erf": (-3, 3),
    "erfc": (-2, 8),
    "erfinv": (-1, 1),
    "erfcx": (-2, 20),
    "ndtr": (-8, 4),
    "ndtri": (0, 1),
    "log_ndtr": (-20, 4),
    "expit": (-12, 12),
    "logit": (0, 1),
    "log_expit": (-12, 12),
    "exprel": (-1, 1),
    "cosm1": (-1, 1),
    "j0": (0, 20),
    "i0": (-8, 8),
    "k0": (0.1, 8),
    "expi": (0.1, 8),
    "ellipk": (0, 1),
    "spence": (0, 4),
}


def _scipy() -> list[Function]:
    """Describe the functions of scipy."""
    positive, share = Draw(0.1, 12), Draw(0, 1)
    small, rows = Draw(0.5, 6), Draw(-8, 8, (100, 64))
    special = "scipy.special"
    pairs = [
        Function(f"{special}.{name}", f"{special}.{name}", inputs, WIDE, name)
        for name, inputs in (
            ("jv", (small, positive)),
            ("kv", (small, positive)),
            ("gammainc", (small, positive)),
            ("gammaincc", (small, positive)),
            ("betainc", (small, small, share)),
            ("xlogy", (small, positive)),
            ("zeta", (Draw(1.5, 8), positive)),
            ("boxcox", (positive, Draw(-1, 1))),
        )
    ]
    pairs += [
        Function(f"{special}.{name}", f"{special}.{name}", (rows,), WIDE, name, {"axis": -1})
        for name in ("logsumexp", "softmax", "log_softmax")
    ]
    return [*_unary(special, _SPECIAL, WIDE), *pairs, *_scipy_arrays(), *_distributions()]


def _scipy_arrays() -> list[Function]:
    """Describe the linear algebra and the transforms of scipy."""
    matrix, vector = Draw(-1, 1, (20, 20), dominant=4.0), Draw(-1, 1, (20, 20))
    linalg = [
        Function(f"scipy.linalg.{name}", f"scipy.linalg.{name}", inputs, WIDE, name, {}, "array")
        for name, inputs in (
            ("solve", (matrix, vector)),
            ("inv", (matrix,)),
            ("svdvals", (matrix,)),
            ("expm", (Draw(-1, 1, (8, 8)),)),
            ("sqrtm", (Draw(-1, 1, (8, 8), dominant=8.0),)),
        )
    ]
    return linalg + _transforms("scipy.fft", ("fft", "rfft", "dct"), Draw(-1, 1, (6, 120)))


def _distributions() -> list[Function]:
    """Describe distributions of scipy.stats; their parameters are the arguments after the first."""
    positive, share, signed = (
        Draw(0.05, 12),
        Draw(0, 1),
        Draw(-8, 8),
    )
    return [
        Function(f"scipy.stats.{name}", f"scipy.stats.{name}", (draw,), (DOUBLE,), name, {"parameters": parameters})
        for name, draw, parameters in (
            ("norm.cdf", signed, ()),
            ("norm.logcdf", signed, ()),
            ("norm.ppf", share, ()),
            ("t.cdf", signed, (4.5,)),
            ("t.sf", signed, (4.5,)),
            ("chi2.cdf", positive, (3.0,)),
            ("chi2.sf", positive, (3.0,)),
            ("gamma.cdf", positive, (2.5,)),
            ("beta.cdf", share, (2.5, 1.5)),
            ("f.cdf", positive, (3.0, 7.0)),
            ("weibull_min.cdf", positive, (1.5,)),
            ("logistic.cdf", signed, ()),
        )
    ]


_OPERATORS = {
    "Exp": (-9, 11),
    "Log": (0.01, 4),
    "Sin": (-8, 8),
    "Cos": (-8, 8),
    "Tan": (-8, 8),
    "Tanh": (-4, 4),
    "Sigmoid": (-12, 12),
    "Erf": (-3, 3),
    "Sqrt": (0, 8),
    "Softplus": (-8, 8),
    "Elu": (-8, 8),
    "Atan": (-8, 8),
    "Sinh": (-4, 4),
    "HardSwish": (-4, 4),
    "Gelu": (-4, 4),
    "FastGelu": (-4, 4),
    "QuickGelu": (-4, 4),
}


def _onnxruntime() -> list[Function]:
    """Describe the operators of ONNX Runtime. Options are attributes, apart from `constants`, further inputs."""
    rows, ones = Draw(-4, 4, (100, 100)), Draw(0, 1, (100, 1000))
    few = REAL[:2]
    functions = [
        Function(f"onnxruntime.{name}", name, (Draw(low, high),), few, name.lower())
        for name, (low, high) in _OPERATORS.items()
    ]
    functions += [
        Function(f"onnxruntime.{name}", name, (rows,), few, name.lower(), {"axis": -1})
        for name in ("Softmax", "LogSoftmax")
    ]
    functions += [
        Function(f"onnxruntime.{name}", name, (ones,), few, name.lower(), {"axes": [-1], "keepdims": 0})
        for name in ("ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare")
    ]
    left, right = Draw(-1, 1, (24, 120)), Draw(-1, 1, (120, 24))
    scale, shift = Draw(0.5, 2, (100,)), Draw(-1, 1, (100,))
    return [
        *functions,
        Function("onnxruntime.LayerNormalization", "LayerNormalization", (rows, scale, shift), few, "layernorm"),
        Function("onnxruntime.MatMul", "MatMul", (left, right), few, "matmul", {}, "array"),
        Function("onnxruntime.Gemm", "Gemm", (left, right), few, "matmul", {}, "array"),
        Function(
            "onnxruntime.Conv", "Conv", (Draw(-1, 1, (1, 8, 64)), Draw(-1, 1, (8, 8, 5))), few, "conv", {}, "array"
        ),
        Function("onnxruntime.Pow", "Pow", (Draw(0.01, 8), Draw(-4, 4)), few, "power"),
        Function("onnxruntime.QuantizeLinear", "QuantizeLinear", (Draw(-8, 8),), (SINGLE,), "quantizelinear"),
    ]


def watched_functions(package: str) -> list[Function]:
    """Return the functions of a package: numpy, scipy or onnxruntime."""
    if package == "numpy":
        return _numpy_elementwise() + _numpy_arrays()
    return {"scipy": _scipy, "onnxruntime": _onnxruntime}[package]()
