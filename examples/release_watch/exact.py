"""What are the exact results of the watched functions? mpmath computes them with 50 digits from the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import mul, truediv
from typing import Any

import numpy as np
from mpmath import mp, mpf

from functions import Function
from precreg.arithmetic import from_mpmath, to_mpmath

DIGITS = 50
Options = Mapping[str, Any]


def exact_result(function: Function, dtype: str) -> Any:
    """Return the exact result of a function, rounded once to longdouble, or to clongdouble if it is complex."""
    with mp.workdps(DIGITS):
        arrays = [to_mpmath(array) for array in function.arrays(dtype)]
        if function.exact in _ARRAYS:
            return from_mpmath(np.asarray(_ARRAYS[function.exact](arrays, function.options), dtype=object))
        if function.exact in _ROWS:
            [rows, *others] = arrays
            results = _along(rows, function.options, lambda row: _ROWS[function.exact](row, *others))
            return from_mpmath(np.asarray(results, dtype=object))
        arrays += [mpf(value) for value in function.options.get("parameters", ())]
        element = _ELEMENTS.get(function.exact) or getattr(mp, function.exact)
        return from_mpmath(np.asarray(np.frompyfunc(element, len(arrays), 1)(*arrays), dtype=object))


def _along(array: Any, options: Options, of_row: Callable[[Sequence[Any]], Any]) -> list[Any]:
    """Apply a function to each row, or with axis 0 to each column."""
    return [of_row(list(row)) for row in (array.T if options.get("axis") == 0 else array)]


def _logaddexp(x: Any, y: Any) -> Any:
    return mp.log(mp.exp(x) + mp.exp(y))


def _normal_below(x: Any) -> Any:
    # erfc keeps all digits where the probability is small.
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _normal_quantile(p: Any) -> Any:
    return mp.sqrt(2) * mp.erfinv(2 * p - 1)


def _t_above(x: Any, df: Any) -> Any:
    tail = mp.betainc(df / 2, mpf(1) / 2, 0, df / (df + x * x), regularized=True) / 2
    return tail if x >= 0 else 1 - tail


def _gamma_below(shape: Any, x: Any) -> Any:
    return mp.gammainc(shape, 0, x, regularized=True)


def _gamma_above(shape: Any, x: Any) -> Any:
    return mp.gammainc(shape, x, mp.inf, regularized=True)


def _beta_below(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def _cube_root(x: Any) -> Any:
    return mp.cbrt(x) if x >= 0 else -mp.cbrt(-x)


def _fast_gelu(x: Any) -> Any:
    return x / 2 * (1 + mp.tanh(mpf("0.7978845608028654") * (x + mpf("0.044715") * x**3)))


def _relative_exponential(x: Any) -> Any:
    return mp.expm1(x) / x


def _log_of_cdf(x: Any) -> Any:
    return mp.log(_normal_below(x))


def _round_to_byte(x: Any) -> Any:
    return min(max(int(mp.nint(x / _QUANTIZATION_SCALE)) + 128, 0), 255)


# A power of two, so that the division is exact, and ties go to even as mp.nint has them.
_QUANTIZATION_SCALE = 0.0625

_ELEMENTS: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mp.power(2, x),
    "log2": lambda x: mp.log(x) / mp.log(2),
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "arcsinh": mp.asinh,
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "arctan2": mp.atan2,
    "cbrt": _cube_root,
    "square": lambda x: x * x,
    "absolute": abs,
    "multiply": mul,
    "divide": truediv,
    "logaddexp": _logaddexp,
    "logaddexp2": lambda x, y: mp.log(mp.power(2, x) + mp.power(2, y)) / mp.log(2),
    "gammaln": mp.loggamma,
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
    "ndtr": _normal_below,
    "ndtri": _normal_quantile,
    "log_ndtr": _log_of_cdf,
    "expit": lambda x: 1 / (1 + mp.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "logit": lambda p: mp.log(p) - mp.log1p(-p),
    "log_expit": lambda x: -mp.log1p(mp.exp(-x)),
    "exprel": _relative_exponential,
    "cosm1": lambda x: -2 * mp.sin(x / 2) ** 2,
    "j0": lambda x: mp.besselj(0, x),
    "i0": lambda x: mp.besseli(0, x),
    "k0": lambda x: mp.besselk(0, x),
    "jv": mp.besselj,
    "kv": mp.besselk,
    "expi": mp.ei,
    "spence": lambda x: mp.re(mp.polylog(2, 1 - x)),
    "gammainc": _gamma_below,
    "gammaincc": _gamma_above,
    "betainc": _beta_below,
    "xlogy": lambda x, y: x * mp.log(y),
    "boxcox": lambda x, power: mp.expm1(power * mp.log(x)) / power,
    "norm.cdf": _normal_below,
    "norm.logcdf": _log_of_cdf,
    "norm.ppf": _normal_quantile,
    "t.cdf": lambda x, df: _t_above(-x, df),
    "t.sf": _t_above,
    "chi2.cdf": lambda x, df: _gamma_below(df / 2, x / 2),
    "chi2.sf": lambda x, df: _gamma_above(df / 2, x / 2),
    "gamma.cdf": lambda x, a: _gamma_below(a, x),
    "beta.cdf": lambda x, a, b: _beta_below(a, b, x),
    "f.cdf": lambda x, n, d: _beta_below(n / 2, d / 2, n * x / (n * x + d)),
    "weibull_min.cdf": lambda x, c: -mp.expm1(-(x**c)),
    "logistic.cdf": lambda x: 1 / (1 + mp.exp(-x)),
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "elu": lambda x: x if x > 0 else mp.expm1(x),
    "hardswish": lambda x: x * min(max(x / 6 + mpf(1) / 2, 0), 1),
    "gelu": lambda x: x * _normal_below(x),
    "fastgelu": _fast_gelu,
    "quickgelu": lambda x: x / (1 + mp.exp(-mpf("1.702") * x)),
    "quantizelinear": _round_to_byte,
}


def _variance(row: Sequence[Any]) -> Any:
    mean = mp.fsum(row) / len(row)
    return mp.fsum((x - mean) ** 2 for x in row) / len(row)


def _running_sum(row: Sequence[Any]) -> list[Any]:
    total, sums = mpf(0), []
    for x in row:
        total += x
        sums.append(total)
    return sums


def _log_sum_exp(row: Sequence[Any]) -> Any:
    return mp.log(mp.fsum(mp.exp(x) for x in row))


def _softmax(row: Sequence[Any]) -> list[Any]:
    terms = [mp.exp(x) for x in row]
    total = mp.fsum(terms)
    return [term / total for term in terms]


def _log_softmax(row: Sequence[Any]) -> list[Any]:
    total = _log_sum_exp(row)
    return [x - total for x in row]


def _layer_norm(row: Sequence[Any], scale: Any, shift: Any) -> list[Any]:
    # ONNX has 1e-5 as the default of epsilon, a float32.
    mean = mp.fsum(row) / len(row)
    deviation = mp.sqrt(_variance(row) + mpf(float(np.float32(1e-5))))
    return [(x - mean) / deviation * a + b for x, a, b in zip(row, scale, shift, strict=True)]


_ROWS: dict[str, Callable[..., Any]] = {
    "sum": mp.fsum,
    "mean": lambda row: mp.fsum(row) / len(row),
    "var": _variance,
    "std": lambda row: mp.sqrt(_variance(row)),
    "cumsum": _running_sum,
    "prod": lambda row: reduce(mul, row),
    "norm": lambda row: mp.sqrt(mp.fsum(x * x for x in row)),
    "logsumexp": _log_sum_exp,
    "softmax": _softmax,
    "logsoftmax": _log_softmax,
    "log_softmax": _log_softmax,
    "reducemean": lambda row: mp.fsum(row) / len(row),
    "reducel2": lambda row: mp.sqrt(mp.fsum(x * x for x in row)),
    "reducelogsumexp": _log_sum_exp,
    "reducesumsquare": lambda row: mp.fsum(x * x for x in row),
    "layernorm": _layer_norm,
}


def _matmul(arrays: list[Any], options: Options) -> Any:
    return np.dot(*arrays)


def _solve(arrays: list[Any], options: Options) -> Any:
    matrix = mp.matrix(arrays[0].tolist())
    columns = [list(mp.lu_solve(matrix, mp.matrix(list(column)))) for column in arrays[1].T]
    return np.array(columns, dtype=object).T


def _of_matrix(compute: Callable[[Any], Any]) -> Callable[[list[Any], Options], Any]:
    """Return a function of arrays for a function of one matrix of mpmath."""

    def of_arrays(arrays: list[Any], options: Options) -> Any:
        result = compute(mp.matrix(arrays[0].tolist()))
        return result.tolist() if hasattr(result, "tolist") else result

    return of_arrays


def _determinants(arrays: list[Any], options: Options) -> Any:
    return [mp.det(mp.matrix(matrix.tolist())) for matrix in arrays[0]]


def _singular_values(matrix: Any) -> list[Any]:
    return list(mp.svd_r(matrix, compute_uv=False))


def _eigenvalues(matrix: Any) -> list[Any]:
    return sorted(mp.eigsy(matrix, eigvals_only=True))


def _fourier(direction: int, half: bool = False) -> Callable[[list[Any], Options], Any]:
    """Return the discrete Fourier transform of rows by its definition, or its first half."""

    def of_arrays(arrays: list[Any], options: Options) -> Any:
        length = arrays[0].shape[1]
        roots = [mp.expjpi(mpf(2 * direction * k) / length) for k in range(length)]
        places = range(length // 2 + 1 if half else length)
        kernel = np.array([[roots[k * j % length] for k in places] for j in range(length)], dtype=object)
        return np.dot(arrays[0], kernel) / (length if direction > 0 else 1)

    return of_arrays


def _cosine(arrays: list[Any], options: Options) -> Any:
    length = arrays[0].shape[1]
    angles = [[mp.cospi(mpf(k * (2 * j + 1)) / (2 * length)) for k in range(length)] for j in range(length)]
    return 2 * np.dot(arrays[0], np.array(angles, dtype=object))


def _convolve(arrays: list[Any], options: Options) -> Any:
    signal, kernels = arrays
    width = kernels.shape[2]
    places = range(signal.shape[2] - width + 1)
    return [[[(signal[0, :, p : p + width] * kernel).sum() for p in places] for kernel in kernels]]


_ARRAYS: dict[str, Callable[[list[Any], Options], Any]] = {
    "matmul": _matmul,
    "solve": _solve,
    "inv": _of_matrix(mp.inverse),
    "det": _determinants,
    "cholesky": _of_matrix(mp.cholesky),
    "svd": _of_matrix(_singular_values),
    "svdvals": _of_matrix(_singular_values),
    "eigvalsh": _of_matrix(_eigenvalues),
    "expm": _of_matrix(mp.expm),
    "sqrtm": _of_matrix(mp.sqrtm),
    "fft": _fourier(-1),
    "ifft": _fourier(1),
    "rfft": _fourier(-1, half=True),
    "dct": _cosine,
    "conv": _convolve,
}
