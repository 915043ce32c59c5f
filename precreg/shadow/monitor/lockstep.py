"""How do float64 values travel beside the tensors of one sampled step?

The values are kept by storage, so views, in-place operations, saved tensors and gradients need no rules of their own. A
track is one set of such values. The first one lasts for the step; a layer that runs adds a track that begins with the
low-precision inputs of the layer, so that it ends with the exact layer.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves, tree_map

from precreg.types import MonitorEventKind

Note = Callable[[MonitorEventKind, str, str], None]


def wide_dtype(dtype: Any) -> Any:
    """Return float64 or complex128."""
    return torch.complex128 if dtype.is_complex else torch.float64


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex() or value.is_quantized)


def can_be_shadowed(value: Any) -> bool:
    """Return whether a value is a tensor of floating numbers whose storage is a plain row of them."""
    return (
        _is_floating(value)
        and value.layout == torch.strided
        and not value.is_quantized
        and value.device.type != "meta"
        and type(value) in (torch.Tensor, torch.nn.Parameter)
    )


def storage_key(tensor: Any) -> int:
    """Return the identity of a tensor's storage."""
    return int(tensor.untyped_storage()._cdata)


class Track:
    """Keep float64 values by storage. A storage without them is exact as it is, and costs nothing."""

    def __init__(self) -> None:
        # The weak reference removes an entry together with its storage, before another one gets its address.
        self._kept: dict[int, tuple[weakref.ref[Any], Any, Any]] = {}

    def of(self, tensor: Any, upcasts: dict[int, Any] | None = None) -> Any:
        """Return the float64 values of a tensor: a view of those of its storage, or a copy of the tensor."""
        kept = self._kept.get(storage_key(tensor))
        if kept is not None and kept[1] == tensor.dtype:
            return kept[2].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        upcasts = {} if upcasts is None else upcasts
        if id(tensor) not in upcasts:
            upcasts[id(tensor)] = tensor.detach().to(wide_dtype(tensor.dtype))
        return upcasts[id(tensor)]

    def keep(self, tensor: Any) -> None:
        """Keep the values of a tensor's storage before an operation writes to it."""
        kept = self._kept.get(storage_key(tensor))
        if kept is None or kept[1] != tensor.dtype:
            length = tensor.untyped_storage().nbytes() // tensor.element_size()
            flat = tensor.detach().as_strided((length,), (1,), 0)
            self._put(tensor, flat.to(wide_dtype(tensor.dtype), copy=True))

    def adopt(self, tensor: Any, exact: Any) -> None:
        """Keep exact values for a tensor whose storage an operation has just made."""
        length = tensor.untyped_storage().nbytes() // tensor.element_size()
        flat = torch.zeros(length, dtype=wide_dtype(tensor.dtype), device=tensor.device)
        flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).copy_(exact)
        self._put(tensor, flat)

    def forget(self, tensor: Any) -> None:
        """Take the low-precision values of a tensor's storage as exact from now on."""
        self._kept.pop(storage_key(tensor), None)

    def knows(self, tensor: Any) -> bool:
        """Return whether an operation has made or changed a tensor's storage since the track began."""
        return storage_key(tensor) in self._kept

    def _put(self, tensor: Any, flat: Any) -> None:
        storage, key, kept = tensor.untyped_storage(), storage_key(tensor), self._kept
        self._kept[key] = (weakref.ref(storage, lambda _: kept.pop(key, None)), tensor.dtype, flat)


class Lockstep(TorchDispatchMode):  # type: ignore[misc]
    """Run each operation as it is, and in float64 on the values of each track. Results keep the bits of a plain run."""

    def __init__(self, note: Note) -> None:
        super().__init__()
        self.step_track = Track()
        self.layer_tracks: list[Track] = []
        # Statistics are operations, too, and must not be watched.
        self.is_paused = False
        self._note = note
        self._thread = threading.get_ident()

    def leave(self) -> bool:
        """End the mode; return False if this thread cannot, because another one began it or a later mode is active."""
        self.is_paused = True
        self.layer_tracks.clear()
        self.step_track = Track()
        if threading.get_ident() != self._thread or _get_current_dispatch_mode() is not self:
            return False
        self.__exit__(None, None, None)
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation of torch; its tensors are below autograd and autocast here."""
        kwargs = kwargs or {}
        if self.is_paused:
            return func(*args, **kwargs)
        tensors = [each for each in tree_leaves((args, kwargs)) if _is_floating(each)]
        given = {id(each): each for each in tensors if can_be_shadowed(each)}
        for strange in tensors:
            if id(strange) not in given:
                self._note("cut", _name(func), f"{type(strange).__name__}, {strange.layout}, {strange.dtype}")
        return self._in_lockstep(func, args, kwargs, given) if given else func(*args, **kwargs)

    def _in_lockstep(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: dict[int, Any]) -> Any:
        name = _name(func)
        written = [each for each in _written(func, args, kwargs) if id(each) in given]
        tracks = [self.step_track, *self.layer_tracks]
        wide = [_before(track, given, written) for track in tracks]
        result = func(*args, **kwargs)
        known = {storage_key(each) for each in given.values()}
        made = [each for each in tree_leaves(result) if can_be_shadowed(each)]
        if not written and all(storage_key(each) in known for each in made):
            # A view has the values of its storage already.
            if name in _CUTS:
                self._note("cut", name, "")
            return result
        if _is_random(func, args, kwargs) and name not in RULES:
            for track in tracks:
                for each in written:
                    track.forget(each)
            return result
        for track, values in zip(tracks, wide, strict=True):
            exact = self._exact(func, args, kwargs, values, result, written)
            _after(track, result, exact, {storage_key(each) for each in written})
        return result

    def _exact(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        values: dict[int, Any],
        result: Any,
        written: Sequence[Any],
    ) -> Any:
        """Return the results in float64; written tensors have theirs changed in place."""
        name = _name(func)

        def widen(value: Any) -> Any:
            if isinstance(value, torch.dtype) and (value.is_floating_point or value.is_complex):
                return wide_dtype(value)
            return values.get(id(value), value) if isinstance(value, torch.Tensor) else value

        if name in RULES:
            return RULES[name](func, tree_map(widen, args), tree_map(widen, kwargs), result)
        try:
            return func(*tree_map(widen, args), **tree_map(widen, kwargs))
        except RuntimeError as refusal:
            self._note("not_shadowed", name, str(refusal).partition("\n")[0][:200])
        return _on_rounded(func, args, kwargs, values, written)


# Values leave torch, or their bits become other numbers.
_CUTS = {"_local_scalar_dense", "view.dtype"}
# torch marks attention as random because of its dropout.
_WITHOUT_DROPOUT = 0.0


def _name(func: Any) -> str:
    """Return the name of an operation, such as add.Tensor."""
    schema = func._schema
    name = schema.name.removeprefix("aten::")
    return f"{name}.{schema.overload_name}" if schema.overload_name else str(name)


def _before(track: Track, given: Mapping[int, Any], written: Iterable[Any]) -> dict[int, Any]:
    """Return the float64 values of an operation's tensors before it runs, by the identity of the tensor."""
    for tensor in written:
        track.keep(tensor)
    upcasts: dict[int, Any] = {}
    return {key: track.of(tensor, upcasts) for key, tensor in given.items()}


def _after(track: Track, result: Any, exact: Any, written: set[int]) -> None:
    for low, wide in zip(tree_leaves(result), tree_leaves(exact), strict=False):
        if can_be_shadowed(low) and isinstance(wide, torch.Tensor) and storage_key(low) not in written:
            track.adopt(low, wide)


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the tensors that an operation writes to, as its schema says."""
    found = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.is_write:
            found += tree_leaves(args[place] if place < len(args) else kwargs.get(argument.name))
    return [each for each in found if isinstance(each, torch.Tensor)]


def _argument(func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], default: Any) -> Any:
    for place, argument in enumerate(func._schema.arguments):
        if argument.name == name:
            return args[place] if place < len(args) else kwargs.get(name, default)
    return default


def _is_random(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    return bool(_argument(func, "dropout_p", args, kwargs, None) != _WITHOUT_DROPOUT)


def _on_rounded(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], values: Mapping[int, Any], written: Sequence[Any]
) -> Any:
    """Run an operation as it is on the rounded float64 values, which change as it changes its tensors."""
    rounded: dict[int, Any] = {}

    def narrow(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or id(value) not in values:
            return value
        if id(value) not in rounded:
            rounded[id(value)] = values[id(value)].to(value.dtype, copy=True)
        return rounded[id(value)]

    result = func(*tree_map(narrow, args), **tree_map(narrow, kwargs))
    for tensor in written:
        values[id(tensor)].copy_(rounded[id(tensor)])
    return tree_map(lambda each: each.to(wide_dtype(each.dtype)) if can_be_shadowed(each) else each, result)


def _dropout(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Drop the elements that the low-precision operation dropped."""
    values, rate, is_training = args[0], args[1], _argument(func, "train", args, kwargs, True)
    if is_training is False:
        return values.clone(), result[1]
    return values * result[1] / (1.0 - rate) if rate < 1.0 else torch.zeros_like(values), result[1]


def _chosen(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Take the elements that the low-precision operation chose: indices and values then belong together."""
    values, indices = args[0], result[1]
    dim = _argument(func, "dim", args, kwargs, -1)
    is_kept = indices.dim() == values.dim()
    at = indices if is_kept else indices.unsqueeze(dim)
    taken = values.gather(dim, at) if values.dim() else values.clone()
    return (taken if is_kept else taken.squeeze(dim)), indices


# Names of operations with a form of their own in float64.
RULES: dict[str, Callable[..., Any]] = {
    "native_dropout": _dropout,
    **dict.fromkeys(
        ("sort", "sort.stable", "topk", "kthvalue", "mode", "cummax", "cummin")
        + ("max.dim", "min.dim", "median.dim", "nanmedian.dim"),
        _chosen,
    ),
}
