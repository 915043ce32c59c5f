"""Standards of frameworks and compilers: torch, FlagGems, JAX, ONNX, ONNX Runtime, Polygraphy."""

from __future__ import annotations

from precreg.tolerance.standard import Limits, Parameter, Standard, close, each

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")

_FLOATS = ("float16", "bfloat16", "float32", "float64")

_FLOAT8 = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)

_EQUAL = close(0.0, 0.0)


TORCH = Standard(
    "torch-2.13",
    "every element is close; what is not listed must be equal",
    "torch.testing.assert_close, torch 2.13",
    {
        "float16": close(1e-3, 1e-5),
        "bfloat16": close(1.6e-2, 1e-5),
        **each(("float32", "complex64"), close(1.3e-6, 1e-5)),
        **each(("float64", "complex128"), close(1e-7, 1e-7)),
    },
    otherwise=_EQUAL,
    differs=(
        "torch takes a NaN for unequal unless asked (equal_nan): here it matches a NaN in the same place",
        "torch passes empty arrays, which fail here",
    ),
)


def _dynamo(name: str, about: str, excess: str, tol: Parameter) -> Standard:
    """Return dynamo's comparison: near the reference at once, or hardly farther from it than eager execution is."""
    rule = Limits({"rtol": tol.default, "atol": tol.default}, ({"match_ratio": 1.0}, {excess: tol.default / 10}))
    return Standard(
        name,
        f"every element is close, or {about}",
        "torch._dynamo.utils.same, torch 2.13",
        each(_FLOATS, rule),
        otherwise=close(tol.default, tol.default),
        parameters={"tol": tol},
        differs=("dynamo's first look is at eager execution, the benchmark here, in place of the reference",),
    )


_SCALED = ("rtol", "atol", "rms_excess", "rms_excess_3")

DYNAMO = (
    _dynamo(
        "torch-dynamo-2.13",
        "RMSE <= m RMSE(benchmark) + tol/10, m = 2 (3 for float16 and bfloat16, n < 1000, and 1x1 kernels)",
        "rms_excess",
        Parameter(
            "tol: rtol, atol, and ten times what RMSE may exceed m times the benchmark's", 1e-4, _SCALED, 0.0, 2e-2
        ),
    ),
    _dynamo(
        "torch-dynamo-wide-2.13",
        "RMSE <= 3 RMSE(benchmark) + tol/10: what dynamo does where tol is 0.02 or more",
        "rms_excess_3",
        Parameter("tol: rtol, atol, and ten times what RMSE may exceed thrice the benchmark's", 2e-2, _SCALED, 2e-2),
    ),
)


FLAGGEMS = Standard(
    "flaggems-1",
    "every element is close, with torch's rtol, and an atol of 1e-4 times the length that is reduced over",
    "gems_assert_close of FlagGems",
    {
        "float16": close(1e-3, 1e-4),
        "bfloat16": close(1.6e-2, 1e-4),
        **each(("float32", "complex64"), close(1.3e-6, 1e-4)),
        "float64": close(1e-7, 1e-4),
        **each(_INTEGERS, _EQUAL),
    },
    parameters={"reduced": Parameter("the length that is reduced over", 1.0, ("atol",), 1.0)},
    differs=(
        "FlagGems rounds the reference to the output's dtype first: at an atol below half an ULP of it we are stricter",
        "FlagGems gives integers an atol of 1e-4 times the length too, so that they may differ from a length of 1e4 on",
    ),
)


JAX = Standard(
    "jax-1",
    "every element is close, with one figure as rtol and atol; integers must be equal. The tolerance is for one "
    "element, and must not be multiplied by the size of the array",
    "jax test utilities, default tolerances",
    {
        "float4_e2m1fn": close(1.0, 1.0),
        **each(_FLOAT8, close(1e-1, 1e-1)),
        "bfloat16": close(1e-2, 1e-2),
        "float16": close(1e-3, 1e-3),
        **each(("float32", "complex64"), close(1e-6, 1e-6)),
        **each(("float64", "complex128"), close(1e-15, 1e-15)),
        **each(_INTEGERS, _EQUAL),
    },
    differs=("jax.test_util.check_close does multiply rtol and atol by the size of the array",),
)


ONNX = Standard(
    "onnx-backend-1",
    "every element is close; the dtype must match, which a golden sees to",
    "ONNX backend test runner",
    {},
    close(1e-3, 1e-7),
    differs=("the runner multiplies rtol by the output under test, and not by the reference",),
)


ONNXRUNTIME = Standard(
    "onnxruntime-1",
    "every element is close; integers must be equal",
    "ONNX Runtime test checkers",
    {
        "float64": close(1e-5, 1e-5),
        "float32": close(1e-4, 1e-5),
        "float16": close(1e-3, 2.5e-3),
        "bfloat16": close(1e-2, 2e-2),
        **each(_INTEGERS, _EQUAL),
    },
    differs=(
        "the figures are floats there: 1e-5f is 9.99999974738e-06",
        "OpenVINO, DML and training builds are allowed more",
    ),
)


_POLYGRAPHY = "default thresholds of Polygraphy 0.53"

POLYGRAPHY = (
    Standard(
        "polygraphy-0.53",
        "no element exceeds both tolerances: |a-r| <= max(1e-5, 1e-5 |r|)",
        _POLYGRAPHY,
        {},
        Limits(
            {"relative_violation_share": 0.0, "absolute_violation_share": 0.0},
            regions={"threshold_bound": 1.0, "threshold_rtol": 1e-5, "threshold_atol": 1e-5},
        ),
        differs=(
            "Polygraphy takes differences in float32, or in the dtype itself if it is wider",
            "its |r| is that of the second runner, be it the reference or not",
        ),
    ),
    Standard(
        "polygraphy-cosine-0.53",
        "the cosine is at least 0.997",
        _POLYGRAPHY,
        {},
        Limits({"cosine": 0.997}),
        differs=("Polygraphy takes the cosine of two arrays of zeros for 1; here it is not defined, which fails",),
    ),
    Standard(
        "polygraphy-psnr-0.53",
        "the peak signal-to-noise ratio is at least 30 dB",
        _POLYGRAPHY,
        {},
        Limits({"psnr": 30.0}),
        differs=("Polygraphy's peak is max r, and 1 where that is not positive; ours is max |r|",),
    ),
    Standard(
        "polygraphy-snr-0.53", "the signal-to-noise ratio is at least 20 dB", _POLYGRAPHY, {}, Limits({"snr": 20.0})
    ),
)


FRAMEWORKS = (TORCH, *DYNAMO, FLAGGEMS, JAX, ONNX, ONNXRUNTIME, *POLYGRAPHY)
