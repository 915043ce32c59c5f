"""Which operators of ONNX Runtime's own domains have a rule of float64?

ONNX Runtime fuses nodes into them, stores channels of images in blocks, and computes on integers with scales.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt

import numpy as np

from precreg.shadow.onnx.convolution import convolve, steps_of
from precreg.shadow.onnx.rules import (
    EPSILON,
    Attributes,
    Rule,
    along_channels,
    average_pool,
    by_name,
    gelu_of,
    max_pool,
    normalized,
    softmax_of,
)
from precreg.shadow.onnx.wide import Array, Wide, choose

# Without the attribute: com.microsoft's Attention adds this number to the scores of masked places.
_MASKED = -10000.0


def activated(attributes: Attributes, x: Wide) -> Wide:
    """Return the activation that a fused node names, with its parameters."""
    name = attributes.get("activation") or "Identity"
    given = list(attributes.get("activation_params") or ())
    given += [attributes[key] for key in ("activation_alpha", "activation_beta") if key in attributes]
    if name == "Identity":
        return x
    parameters = dict(zip(_PARAMETERS.get(name, ()), given, strict=False))
    return by_name(name, parameters, x)


_PARAMETERS: Mapping[str, Sequence[str]] = {
    "Clip": ("min", "max"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
}


def _fused_conv(attributes: Attributes, x: Wide, w: Wide, bias: Wide | None = None, more: Wide | None = None) -> Wide:
    found = by_name("Conv", attributes, x, w, bias)
    return activated(attributes, found if more is None else found + more)


def _fused_matmul(attributes: Attributes, a: Wide, b: Wide) -> Wide:
    left, right = (_operand(attributes, each, name) for each, name in ((a, "A"), (b, "B")))
    return float(attributes.get("alpha", 1.0)) * (left @ right)


def _operand(attributes: Attributes, x: Wide, name: str) -> Wide:
    """Return an operand of FusedMatMul. With transBatch the axis of the rows comes first, before the axes of stacks."""
    if attributes.get(f"transBatch{name}"):
        x = x.transpose([*range(1, x.ndim - 1), 0, x.ndim - 1])
    return x.swap_last() if attributes.get(f"trans{name}") and x.ndim > 1 else x


def _fused_gemm(attributes: Attributes, a: Wide, b: Wide, c: Wide | None = None) -> Wide:
    return activated(attributes, by_name("Gemm", attributes, a, b, c))


def _quick_gelu(attributes: Attributes, x: Wide) -> Wide:
    return x * (float(attributes.get("alpha", _QUICK)) * x).sigmoid()


_QUICK = float(np.float32(1.702))


def _skip_layer_norm(
    attributes: Attributes, x: Wide, skip: Wide, scale: Wide, shift: Wide | None = None, bias: Wide | None = None
) -> list[Wide]:
    total = x + skip if bias is None else x + skip + bias
    found, mean, inverse = normalized(total, (total.ndim - 1,), attributes.get("epsilon", _SKIP_EPSILON))
    found = found * scale
    return [found if shift is None else found + shift, mean, inverse, total]


_SKIP_EPSILON = float(np.float32(1e-12))


def _simplified_norm(attributes: Attributes, x: Wide, scale: Wide) -> list[Wide]:
    axes = tuple(range(attributes.get("axis", -1) % x.ndim, x.ndim))
    inverse = 1.0 / ((x * x).mean(axes, keepdims=True) + attributes.get("epsilon", EPSILON)).sqrt()
    return [x * inverse * scale, inverse]


def _skip_simplified_norm(
    attributes: Attributes, x: Wide, skip: Wide, scale: Wide, bias: Wide | None = None
) -> list[Wide]:
    total = x + skip if bias is None else x + skip + bias
    found, inverse = _simplified_norm({**attributes, "axis": -1}, total, scale)
    return [found, inverse, inverse, total]


def _embed_layer_norm(
    attributes: Attributes,
    ids: Wide,
    segments: Wide | None,
    words: Wide,
    positions: Wide,
    kinds: Wide | None,
    scale: Wide,
    shift: Wide,
    *rest: Wide | None,
) -> Wide:
    at = rest[1].value if len(rest) > 1 and rest[1] is not None else np.arange(ids.shape[1])
    total = words[(ids.value,)] + positions[(at,)]
    if segments is not None and kinds is not None:
        total = total + kinds[(segments.value,)]
    return normalized(total, (2,), attributes.get("epsilon", _SKIP_EPSILON))[0] * scale + shift


def _heads(x: Wide, count: int) -> Wide:
    """Return (batch, steps, heads * size) as (batch, heads, steps, size)."""
    return x.reshape([x.shape[0], x.shape[1], count, -1]).transpose([0, 2, 1, 3])


def _joined(x: Wide) -> Wide:
    batch, heads, steps, size = x.shape
    return x.transpose([0, 2, 1, 3]).reshape([batch, steps, heads * size])


def _attend(q: Wide, k: Wide, v: Wide, scale: float, bias: Wide | Array | None, *, causal: bool) -> Wide:
    scores = (q @ k.swap_last()) * (scale or 1 / sqrt(q.shape[-1]))
    if bias is not None:
        scores = scores + bias
    if causal:
        steps, known = scores.shape[-2:]
        scores = choose(np.tri(steps, known, known - steps, dtype=np.bool_), scores, np.array(-np.inf))
    return softmax_of(scores) @ v


def _mask(mask: Wide, value: float) -> Array:
    """Return the addend of the scores for a mask of 1 for known places (batch, heads, steps, known)."""
    if mask.ndim not in (2, 3):
        raise NotImplementedError(f"a mask of {mask.ndim} axes")
    given = mask.value[:, None, None, :] if mask.ndim == 2 else mask.value[:, None]
    return np.where(given.astype(np.bool_), 0.0, value)


def _attention(
    attributes: Attributes, x: Wide, w: Wide, bias: Wide | None = None, mask: Wide | None = None, *rest: Wide | None
) -> Wide:
    past, added = (*rest, None, None)[:2]
    if past is not None or attributes.get("do_rotary"):
        raise NotImplementedError("Attention with a past or with rotary positions")
    sizes = attributes.get("qkv_hidden_sizes") or [w.shape[1] // 3] * 3
    made = x @ w if bias is None else x @ w + bias
    ends = np.cumsum([0, *sizes]).tolist()
    lead = (slice(None), slice(None))
    q, k, v = (_heads(made.slice((*lead, slice(ends[at], ends[at + 1]))), attributes["num_heads"]) for at in range(3))
    places = None if mask is None else _mask(mask, attributes.get("mask_filter_value", _MASKED))
    total = places if added is None else added if places is None else added + places
    causal = bool(attributes.get("unidirectional"))
    return _joined(_attend(q, k, v, attributes.get("scale", 0.0), total, causal=causal))


def _multi_head_attention(
    attributes: Attributes,
    q: Wide,
    k: Wide | None = None,
    v: Wide | None = None,
    bias: Wide | None = None,
    mask: Wide | None = None,
    added: Wide | None = None,
    *past: Wide | None,
) -> Wide:
    if k is None or v is None or any(each is not None for each in past):
        raise NotImplementedError("MultiHeadAttention with packed inputs or with a past")
    count = attributes["num_heads"]
    if bias is not None:
        size, rest = q.shape[-1], bias.shape[0] - v.shape[-1]
        q, k = q + bias.slice((slice(0, size),)), k + bias.slice((slice(size, rest),))
        v = v + bias.slice((slice(rest, None),))
    q, k, v = (each if each.ndim == 4 else _heads(each, count) for each in (q, k, v))
    places = None if mask is None else _mask(mask, attributes.get("mask_filter_value", _MASKED))
    total = places if added is None else added if places is None else added + places
    causal = bool(attributes.get("unidirectional"))
    return _joined(_attend(q, k, v, attributes.get("scale", 0.0), total, causal=causal))


# Channels in blocks: (n, c, h, w) is stored as (n, c / block, h, w, block).


def unblocked(x: Wide, block: int) -> Wide:
    """Return (n, c, h, w) whose memory has blocks of channels in the usual order."""
    n, c, *sizes = x.shape
    return x.reshape([n, c // block, *sizes, block]).transpose([0, 1, 4, 2, 3]).reshape([n, c, *sizes])


def blocked(x: Wide, block: int) -> Wide:
    """Return (n, c, h, w) in blocks of channels."""
    n, c, *sizes = x.shape
    return x.reshape([n, c // block, block, *sizes]).transpose([0, 1, 3, 4, 2]).reshape([n, c, *sizes])


def _weights_in_order(w: Wide, block: int, *, blocks_of_inputs: bool) -> Wide:
    rows, columns, *kernel = w.shape
    if blocks_of_inputs:
        parts = w.reshape([rows // block, columns // block, *kernel, block, block])
        return parts.transpose([0, 5, 1, 4, 2, 3]).reshape(w.shape)
    return w.reshape([rows // block, columns, *kernel, block]).transpose([0, 4, 1, 2, 3]).reshape(w.shape)


def _blocked_conv(attributes: Attributes, x: Wide, w: Wide, bias: Wide | None = None, more: Wide | None = None) -> Wide:
    block, inputs_blocked = attributes["block"], attributes["blocked"]
    plain = unblocked(x, block) if inputs_blocked else x
    weights = _weights_in_order(w, block, blocks_of_inputs=inputs_blocked and w.shape[1] > 1)
    steps = steps_of(attributes, w.shape[2:], x.shape[2:])
    found = convolve(plain, weights, steps, attributes.get("group", 1))
    found = blocked(found if bias is None else found + along_channels(bias, 4), block)
    return activated(attributes, found if more is None else found + more)


def _blocked_pool(compute: Callable[[Attributes, Wide], Wide]) -> Rule:
    def rule(attributes: Attributes, x: Wide) -> Wide:
        return blocked(compute(attributes, unblocked(x, attributes["block"])), attributes["block"])

    return rule


def _all_of(name: str) -> Callable[[Attributes, Wide], Wide]:
    return lambda attributes, x: by_name(name, attributes, x)


def _into_blocks(attributes: Attributes, x: Wide) -> Wide:
    plain = x.transpose([0, 3, 1, 2]) if attributes.get("channels_last") else x
    missing = -plain.shape[1] % attributes["block"]
    return blocked(plain.pad([(0, 0), (0, missing), (0, 0), (0, 0)]), attributes["block"])


def _out_of_blocks(attributes: Attributes, x: Wide) -> Wide:
    plain = unblocked(x, attributes["block"]).slice((slice(None), slice(0, attributes["channels"])))
    return plain.transpose([0, 2, 3, 1]) if attributes.get("channels_last") else plain


BLOCKED: Mapping[str, Rule] = {
    "AveragePool": _blocked_pool(average_pool),
    "Conv": _blocked_conv,
    "GlobalAveragePool": _blocked_pool(_all_of("GlobalAveragePool")),
    "GlobalMaxPool": _blocked_pool(_all_of("GlobalMaxPool")),
    "MaxPool": _blocked_pool(max_pool),
}
BLOCKED_MOVES: Mapping[str, Rule] = {"ReorderInput": _into_blocks, "ReorderOutput": _out_of_blocks}


# Integers with scales


def dequantized(codes: Wide, scale: Wide, zero: Wide | None = None, axis: int = 1) -> Wide:
    """Return (codes - zero) * scale; a scale of one axis belongs to the places of an axis."""
    wide = codes.value.astype(np.float64)
    if zero is not None:
        wide = wide - _placed(Wide(zero.value.astype(np.float64)), codes.ndim, axis).value
    return wide * _placed(scale, codes.ndim, axis)


def _placed(scale: Wide, ndim: int, axis: int) -> Wide:
    if scale.value.size == 1:
        return scale.reshape(())
    return scale.reshape([-1 if place == axis % ndim else 1 for place in range(ndim)])


def _codes(x: Wide, scale: Wide, zero: Wide | None) -> Wide:
    """Return numbers in steps of a scale as integers of the zero point's dtype, whose range ends them."""
    if zero is None:
        raise NotImplementedError("quantization without a zero point")
    ends = np.iinfo(zero.value.dtype)
    found = np.rint(x.value / scale.value) + zero.value.astype(np.float64)
    return Wide(np.clip(found, ends.min, ends.max).astype(zero.value.dtype))


def _on_codes(compute: Callable[[Attributes, Wide], Wide]) -> Rule:
    """Return the rule of a function between a quantized input and a quantized result."""

    def rule(
        attributes: Attributes, x: Wide, scale: Wide, zero: Wide | None, to_scale: Wide, to_zero: Wide | None = None
    ) -> Wide:
        return _codes(compute(attributes, dequantized(x, scale, zero)), to_scale, to_zero)

    return rule


def _on_two_codes(compute: Callable[[Wide, Wide], Wide]) -> Rule:
    def rule(
        attributes: Attributes,
        a: Wide,
        a_scale: Wide,
        a_zero: Wide | None,
        b: Wide,
        b_scale: Wide,
        b_zero: Wide | None,
        scale: Wide,
        zero: Wide | None = None,
    ) -> Wide:
        found = compute(dequantized(a, a_scale, a_zero), dequantized(b, b_scale, b_zero))
        return _codes(found, scale, zero)

    return rule


def _dequantize(attributes: Attributes, codes: Wide, scale: Wide, zero: Wide | None = None) -> Wide:
    if attributes.get("block_size"):
        raise NotImplementedError("DequantizeLinear with blocks")
    return dequantized(codes, scale, zero, attributes.get("axis", 1))


def _integers_to_float(
    attributes: Attributes,
    a: Wide,
    b: Wide,
    a_scale: Wide,
    b_scale: Wide,
    a_zero: Wide | None = None,
    b_zero: Wide | None = None,
    bias: Wide | None = None,
) -> Wide:
    left = a.value.astype(np.float64) - (0.0 if a_zero is None else a_zero.value.astype(np.float64))
    right = b.value.astype(np.float64) - (0.0 if b_zero is None else b_zero.value.astype(np.float64))
    found = (left @ right) * a_scale * b_scale
    return found if bias is None else found + bias


def _dynamic_codes(attributes: Attributes, x: Wide) -> list[Wide]:
    flat = x.reshape([-1])
    low, high = flat.extreme(np.argmin, 0).minimum(0.0), flat.extreme(np.argmax, 0).maximum(0.0)
    scale = (high - low) / 255.0
    zero = Wide(np.asarray(np.rint(np.clip(-low.value / scale.value, 0, 255))).astype(np.uint8))
    return [_codes(x, scale, zero), scale, zero]


def _dynamic_matmul(
    attributes: Attributes,
    x: Wide,
    w: Wide,
    scale: Wide,
    zero: Wide | None = None,
    bias: Wide | None = None,
) -> Wide:
    codes, x_scale, x_zero = _dynamic_codes(attributes, x)
    return _integers_to_float(attributes, codes, w, x_scale, scale, x_zero, zero, bias)


INTEGER: Mapping[str, Rule] = {
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulIntegerToFloat": _integers_to_float,
    "QLinearAdd": _on_two_codes(lambda a, b: a + b),
    "QLinearMul": _on_two_codes(lambda a, b: a * b),
    "QLinearSigmoid": _on_codes(_all_of("Sigmoid")),
    "QLinearLeakyRelu": _on_codes(_all_of("LeakyRelu")),
}
# In ONNX's own domain.
QUANTIZATION: Mapping[str, Rule] = {"DequantizeLinear": _dequantize, "DynamicQuantizeLinear": _dynamic_codes}

MICROSOFT: Mapping[str, Rule] = {
    **INTEGER,
    **QUANTIZATION,
    "Attention": _attention,
    "BiasGelu": lambda attributes, x, bias: gelu_of(x + bias),
    "EmbedLayerNormalization": _embed_layer_norm,
    "FastGelu": lambda attributes, x, bias=None: gelu_of(x if bias is None else x + bias, "tanh"),
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": lambda attributes, x: gelu_of(x),
    "MultiHeadAttention": _multi_head_attention,
    "QuickGelu": _quick_gelu,
    "SimplifiedLayerNormalization": _simplified_norm,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_simplified_norm,
}
