"""Which facts of an operation does its schema state, and which must be known by its name?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

# Their results are made of no other values.
_CREATE = {
    "arange",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "full",
    "full_like",
    "lift_fresh",
    "linspace",
    "logspace",
    "new_empty",
    "new_empty_strided",
    "new_ones",
    "new_zeros",
    "ones",
    "ones_like",
    "rand_like",
    "randint_like",
    "randn_like",
    "scalar_tensor",
    "zeros",
    "zeros_like",
}
# Those whose numbers may have no exact form in the result's dtype.
_ROUND = {"arange", "full", "full_like", "linspace", "logspace", "scalar_tensor"}
# They copy numbers in the same dtype, so that their own error is 0.
_MOVE = {
    "_unsafe_index",
    "_unsafe_view",
    "as_strided_copy",
    "cat",
    "clone",
    "constant_pad_nd",
    "contiguous",
    "copy",
    "copy_",
    "diag_embed",
    "embedding",
    "flip",
    "gather",
    "index",
    "index_select",
    "masked_select",
    "repeat",
    "repeat_interleave",
    "roll",
    "select_backward",
    "slice_backward",
    "stack",
    "take",
    "tril",
    "triu",
    "where",
}
# Their float results jump, so that the shadow may land on another step.
_JUMP = {"ceil", "floor", "heaviside", "round", "sign", "trunc", "floor_divide"}
# Leading digits may cancel in them.
_ADD = {"add", "sub", "rsub"}
# Statistics of batches that these write in training, although their schema does not say so.
_HIDDEN_WRITES = {
    "native_batch_norm": ("running_mean", "running_var"),
    "cudnn_batch_norm": ("running_mean", "running_var"),
    "miopen_batch_norm": ("running_mean", "running_var"),
}
# Their first result is the user's, and further ones help the backward pass: the mean of a normalized row is almost 0.
_KEEP_FOR_BACKWARD = {
    "_batch_norm_with_update",
    "_fused_rms_norm",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_thnn_fused_gru_cell",
    "_thnn_fused_lstm_cell",
    "cudnn_batch_norm",
    "mkldnn_rnn_layer",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
}
# Numbers that they write represent a decision, which the shadow follows.
_DECIDE = {"_amp_foreach_non_finite_check_and_unscale_": ("found_inf",)}
# torch computes their second derivative with respect to the input, and counts the way through these statistics there.
_STATISTICS = {"native_group_norm_backward": ("mean", "rstd")}


class Facts(NamedTuple):
    """The facts of an operation: its name, its arguments by place, those that it writes, and its kind."""

    name: str
    # The name in records, such as aten.add.
    shown: str
    arguments: tuple[str, ...]
    writes: tuple[str, ...]
    hidden_writes: tuple[str, ...]
    is_random: bool
    creates: bool
    moves: bool
    # Its results have the memory of its first argument, and it writes nothing.
    views: bool
    rounds: bool
    jumps: bool
    adds: bool
    keeps_for_backward: bool
    decides: tuple[str, ...]
    # Arguments that depend on others, and have no derivative of their own.
    statistics: tuple[str, ...]

    def given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name."""
        return {**dict(zip(self.arguments, args, strict=False)), **kwargs}

    def written(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of a call that it writes."""
        if not self.writes and not self.hidden_writes:
            return []
        given = self.given(args, kwargs)
        names = self.writes + (self.hidden_writes if given.get("training", given.get("train")) else ())
        return [given[name] for name in names if given.get(name) is not None]

    def draws(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether a call draws random numbers."""
        if self.name == "native_dropout" or not self.is_random:
            return False
        # Kernels of attention are marked as random, too, and draw only for a dropout.
        return bool(self.given(args, kwargs).get("dropout_p", 0.0) > 0) if "dropout_p" in self.arguments else True


@lru_cache(maxsize=4096)
def facts_of(func: Any) -> Facts:
    """Return the facts of an operation."""
    schema = func._schema
    space, _, name = schema.name.rpartition("::")
    known = name if space == "aten" else schema.name
    return Facts(
        name=known,
        shown=schema.name.replace("::", "."),
        arguments=tuple(each.name for each in schema.arguments),
        writes=tuple(each.name for each in schema.arguments if each.is_write),
        hidden_writes=_HIDDEN_WRITES.get(known, ()),
        is_random=torch.Tag.nondeterministic_seeded in func.tags,
        creates=known in _CREATE,
        moves=known in _MOVE,
        views=func.is_view,
        rounds=known in _ROUND,
        jumps=known.rstrip("_") in _JUMP,
        adds=known.rstrip("_") in _ADD,
        keeps_for_backward=known in _KEEP_FOR_BACKWARD,
        decides=_DECIDE.get(known, ()),
        statistics=_STATISTICS.get(known, ()),
    )
