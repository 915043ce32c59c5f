"""Which array does a tensor of torch hold, and which tensor an array?

Bits survive in each direction, NaN payloads included. precreg recognizes tensors without importing torch: where nothing
imported it, no tensor exists.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from precreg.arithmetic import numpy_dtype
from precreg.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# torch and precreg use the same names for these dtypes. torch lacks float8_e3m4, float8_e4m3, float8_e4m3b11fnuz,
# the float6 formats and longdouble, and has float4_e2m1fn only as two numbers in a byte.
TORCH_FLOATS = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)
TORCH_DTYPES = (
    *TORCH_FLOATS,
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "bool",
    "complex64",
    "complex128",
)
# numpy has no such dtypes, so their bits travel as integers of that many bytes.
_BY_BITS = {"bfloat16": 2} | {name: 1 for name in TORCH_FLOATS if name.startswith("float8")}
# Its numbers are powers of two, a scale without sign and mantissa. float32 holds each of them.
_SCALE = "float8_e8m0fnu"
_PACKED = "float4_e2m1fn_x2"


def is_tensor(value: object) -> bool:
    """Return whether a value is a tensor of torch."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return isinstance(tensor, type) and isinstance(value, tensor)


def tensor_to_array(tensor: Any, shown: str, slug: str = "bad-outputs") -> NDArray[Any]:
    """Return a C-order copy of a tensor, detached and on the host; quantized and sparse ones with their real values.

    The array shares no memory with the tensor. float8_e8m0fnu gives float32, and float4_e2m1fn_x2 twice as many columns
    of float4_e2m1fn. `shown` names the tensor in errors, which have that slug.

    Raises:
        UserError: for a tensor without data, or of a dtype that numpy and ml_dtypes lack.
    """
    _require_data(tensor, shown, slug)
    # torch's errors of tensor subclasses and of devices have many types.
    try:
        plain = _on_host(tensor)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        message = f"expected a tensor whose numbers can be read but got {shown}: {reason}"
        raise UserError(slug, message, hint="copy it to the host first: tensor.detach().cpu()") from error
    name = str(plain.dtype).removeprefix("torch.")
    if name == _SCALE:
        import torch

        return _copy(plain.to(torch.float32))
    if name == _PACKED:
        return _unpack(plain)
    if name not in TORCH_DTYPES:
        known = ", ".join((*TORCH_DTYPES, _SCALE, _PACKED))
        advice = "torch.complex64" if name == "complex32" else "one of them"
        message = f"expected a dtype among {known} but got {shown} of dtype={name}; convert it to {advice} first"
        raise UserError(
            slug,
            message,
            hint=f"convert it: tensor.to({'torch.complex64' if name == 'complex32' else 'torch.float32'})",
        )
    if name not in _BY_BITS:
        return _copy(plain)
    return _copy(plain.view(_integer(_BY_BITS[name]))).view(numpy_dtype(name))


def array_to_tensor(array: NDArray[Any], shown: str) -> Any:
    """Return a tensor with the bits of an array, in memory of its own and with the array's layout where torch has it.

    Raises:
        UserError: unsupported-dtype, for a dtype that torch lacks.
    """
    import numpy as np
    import torch

    name = array.dtype.name
    if name not in TORCH_DTYPES or not hasattr(torch, name):
        known = ", ".join(each for each in TORCH_DTYPES if hasattr(torch, each))
        raise UserError("unsupported-dtype", f"expected a dtype that torch has ({known}) but got {shown} of {name}")
    # torch takes neither another byte order nor negative strides. "K" keeps the order of axes.
    own = np.array(array, array.dtype.newbyteorder("="), order="K", copy=True)
    if name in _BY_BITS:
        own = own.view(np.int16 if _BY_BITS[name] == 2 else np.uint8)
    # A second copy, into memory of torch: kernels choose their way by its alignment, and numpy's is any of 16 bytes.
    tensor = torch.from_numpy(own).clone()
    return tensor.view(getattr(torch, name)) if name in _BY_BITS else tensor


def _require_data(tensor: Any, shown: str, slug: str) -> None:
    """Refuse tensors that hold no numbers of their own, or hold them in parts."""
    kinds = {kind.__name__ for kind in type(tensor).__mro__}
    if tensor.is_meta or "FakeTensor" in kinds:
        problem, advice = "without data (meta or fake)", "run the model on real tensors"
    elif "UninitializedTensorMixin" in kinds:
        problem, advice = "that is not initialized", "call the lazy module once first"
    elif "DTensor" in kinds:
        problem, advice = "in parts on several devices", "gather it first, tensor.full_tensor()"
    elif tensor.is_nested:
        problem, advice = "with rows of different lengths", "pad it first, torch.nested.to_padded_tensor(tensor, 0.0)"
    else:
        return
    raise UserError(slug, f"expected a tensor with numbers but got {shown}, a tensor {problem}; {advice}")


def _on_host(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    # A view of a conjugated or negated tensor has a flag in place of other bits.
    return tensor.cpu().resolve_conj().resolve_neg().contiguous()


def _integer(size: int) -> Any:
    import torch

    return torch.int16 if size == 2 else torch.uint8


def _copy(tensor: Any) -> NDArray[Any]:
    import numpy as np

    # The function may keep its buffer and overwrite it in the next call.
    return np.array(tensor.numpy(), order="C", copy=True)


def _unpack(packed: Any) -> NDArray[Any]:
    import numpy as np
    import torch

    pairs = _copy(packed.view(torch.uint8))
    # The lower four bits come first (torch/headeronly/util/Float4_e2m1fn_x2.h).
    single = np.stack([pairs & 0x0F, pairs >> 4], axis=-1)
    shape = (*pairs.shape[:-1], 2 * pairs.shape[-1]) if pairs.ndim else (2,)
    return single.reshape(shape).view(numpy_dtype("float4_e2m1fn"))
