"""The mistakes that suites of operators on simulated devices catch."""

from tests.suites.plants import Plant

PLANTS = (
    Plant(
        "unit/matmul_on_devices",
        "unit/kernels/on_devices.py",
        "return a @ b",
        "return (a.astype(np.float16) @ b.astype(np.float16)).astype(a.dtype)",
        "both operands and the product pass through float16",
        ("*-mlu370", "*-gpu-tf32"),
    ),
    Plant(
        "unit/layer_norm_on_devices",
        "unit/kernels/on_devices.py",
        "return centered / ",
        "return centered.astype(np.float16).astype(x.dtype) / ",
        "what is centered passes through float16 on its way to the division",
        ("*-mlu370",),
    ),
    Plant(
        "unit/softmax_on_devices",
        "unit/kernels/on_devices.py",
        "weights.sum(-1, keepdims=True)",
        "weights.cumsum(-1)[..., -1:]",
        "the sum is the last of a running sum, which no device spreads over its lanes",
        ("*-ascend", "*-gpu-tf32"),
    ),
    Plant(
        "unit/operand_formats",
        "unit/kernels/operand_formats.py",
        "result = multiply_as(a, b, format)",
        "result = multiply_as(a.astype(np.float16).astype(a.dtype), b, format)",
        "an operand passes through float16 before it is split into parts",
        ("cpu-amx-bfloat16x3-*", "*-tf32x3_nearest-*"),
    ),
)
