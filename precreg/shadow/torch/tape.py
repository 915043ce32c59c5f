"""Which share of an output's error does each operation explain?

The tape keeps the inputs and the own error of each operation. It goes back through them once for an output, and
computes the gradient of the output in the direction of its error. The share of an operation is the inner product of
this gradient with its own error. Gradients belong to storages, as twins do, so that views and writes need no rules.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from precreg.shadow.shelf import Codec, Kept, Shelf
from precreg.shadow.torch.rules import apply_rule, derivable_form, map_leaves
from precreg.shadow.torch.schema import Facts
from precreg.shadow.torch.twins import is_shadowed
from precreg.shadow.torch.ways import LINEAR, Way, way_back


def _pack(tensor: Any) -> tuple[Any, Any]:
    """Return the bytes of a tensor with its dtype, shape, strides (none if it does not fill its memory) and device."""
    host = tensor.resolve_conj().resolve_neg()
    is_dense = host.nbytes == host.untyped_storage().nbytes()
    flat = host.as_strided((host.numel(),), (1,), 0) if is_dense else host.reshape(-1)
    form = (host.dtype, host.shape, host.stride() if is_dense else None, host.device)
    return flat.cpu().view(torch.uint8).numpy(), form


def _unpack(packed: bytearray, form: Any) -> Any:
    dtype, shape, stride, device = form
    flat = torch.frombuffer(packed, dtype=torch.uint8).view(dtype).to(device)
    return flat.view(shape) if stride is None else flat.as_strided(shape, stride)


TENSORS = Codec(_pack, _unpack, torch.clone)


class _Region(NamedTuple):
    """The part of a storage that a tensor sees: the storage's number on the tape, its length, and the view."""

    storage: int
    length: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def view(self, flat: Any) -> Any:
        """Return the tensor's part of a flat tensor."""
        return flat.as_strided(self.shape, self.stride, self.offset)

    @property
    def fills(self) -> bool:
        """Return whether the tensor is all of its storage."""
        return math.prod(self.shape) == self.length


class _Slot:
    """The place of a tensor among the reads of an operation. Arguments are nested tuples, so it is not a tuple."""

    def __init__(self, at: int) -> None:
        self.at = at


class _Alias:
    """The values of an exact tensor: its own memory as long as nothing writes there, and a copy afterwards."""

    def __init__(self, tensor: Any) -> None:
        values = tensor.detach()
        self.kept = Kept(lambda: values)

    def get(self) -> Any:
        """Return the values."""
        return self.kept.get()


class _Read(NamedTuple):
    """An input of an operation; no value if no derivative reads it. An inexact one passes earlier errors on."""

    region: _Region
    dtype: Any
    device: Any
    value: Kept | _Alias | None
    is_inexact: bool

    def load(self) -> Any:
        """Return the values in a dtype for gradients, and 0 in the place of values that are not needed."""
        if self.value is not None:
            value = self.value.get()
            return value if value.dtype is torch.bool else value.to(_gradient_dtype(value.dtype))
        zero = torch.zeros((), dtype=_gradient_dtype(self.dtype), device=self.device)
        return zero.expand(self.region.shape)


class Reads(NamedTuple):
    """The inputs of one operation, and its arguments with their places."""

    reads: list[_Read]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    written: list[int]
    way: Way | None
    # The names of the arguments that pass errors on.
    inexact: set[str]


class _Made(NamedTuple):
    """A result: its place among the results, or the place of the written input; its own error if it is known."""

    region: _Region
    at: int | None
    written: int | None
    own: Kept | None


class _Entry(NamedTuple):
    number: int
    func: Any
    facts: Facts
    inputs: Reads
    made: list[_Made]
    # The results that are integers: indices and masks.
    low: Any


class Attribution(NamedTuple):
    """The shares of one output's error by the number of the operation, and the operations without a derivative."""

    shares: dict[int, float]
    cuts: dict[int, str]


class TorchTape:
    """Keep the operations of a computation, and attribute the errors of outputs to them."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._storages: dict[int, tuple[int, Any]] = {}
        self._aliases: dict[int, list[_Alias]] = {}
        self._copies: dict[int, dict[_Region, Kept]] = {}
        self._last = 0
        self.shelf = Shelf(TENSORS)

    def read(
        self,
        facts: Facts,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        inputs: Sequence[Any],
        written: Sequence[Any],
        is_inexact: Callable[[Any], bool],
    ) -> Reads:
        """Keep the inputs of an operation, before it writes some of them."""
        places = {id(each): at for at, each in enumerate(inputs)}
        given = facts.given(args, kwargs)
        passing = {id(each) for each in inputs if is_inexact(each)}
        inexact = {name for name, each in given.items() if id(each) in passing}
        way = way_back(facts, given, inexact)
        needed = {id(each) for name, each in given.items() if way is None or way.needs(name, inexact)}
        reads = []
        for each in inputs:
            region = self._region(each)
            value: Kept | _Alias | None = None
            if way is not None and way.keep is not None:
                value = self._keep(way.keep(each))
            elif id(each) in needed if way is not None else facts.name not in LINEAR:
                value = self._value(each, region, id(each) in passing)
            reads.append(_Read(region, each.dtype, each.device, value, id(each) in passing))
        for each in written:
            self._protect(self._region(each).storage)

        def slot(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                return _Slot(places[id(leaf)]) if id(leaf) in places else leaf.detach().clone()
            return leaf

        order = [places[id(each)] for each in written]
        return Reads(reads, map_leaves(slot, args), map_leaves(slot, kwargs), order, way, inexact)

    def _keep(self, tensor: Any) -> Kept:
        return self.shelf.keep(tensor, tensor.nbytes)

    def add(
        self,
        number: int,
        func: Any,
        facts: Facts,
        inputs: Reads,
        written: Sequence[Any],
        low: Any,
        owns: dict[int, Any],
    ) -> None:
        """Add an operation that ran, with the own errors of its results by their id."""
        kept_owns = {key: self._keep(own) for key, own in owns.items() if own is not None}
        made = [
            _Made(self._region(each), None, place, kept_owns.get(id(each)))
            for place, each in zip(inputs.written, written, strict=True)
        ]
        known = {each.region.storage for each in made}
        for at, each in enumerate(flat_leaves(low)):
            if is_shadowed(each) and (region := self._region(each)).storage not in known:
                made.append(_Made(region, at, None, kept_owns.get(id(each))))
        kept = map_leaves(lambda leaf: None if is_shadowed(leaf) else leaf, low)
        self._entries.append(_Entry(number, func, facts, inputs, made, kept))

    def _region(self, tensor: Any) -> _Region:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._last += 1
            end = partial(self._end, storage._cdata)
            self._storages[storage._cdata] = self._last, weakref.ref(storage, end)
        number = self._storages[storage._cdata][0]
        count = storage.nbytes() // tensor.element_size()
        return _Region(number, count, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())

    def _end(self, key: int, _storage: object) -> None:
        number, _ = self._storages.pop(key, (0, None))
        self._copies.pop(number, None)

    def _value(self, tensor: Any, region: _Region, is_inexact: bool) -> Kept | _Alias:
        """Return the values of an input. An alias would keep the storage, and with it the twin, alive."""
        copies = self._copies.setdefault(region.storage, {})
        if is_inexact and region not in copies:
            copies[region] = self._keep(tensor.detach())
        if region in copies:
            return copies[region]
        alias = _Alias(tensor)
        self._aliases.setdefault(region.storage, []).append(alias)
        return alias

    def _protect(self, storage: int) -> None:
        """Copy the kept values of a storage, before an operation writes it."""
        for alias in self._aliases.pop(storage, ()):
            alias.kept = self._keep(alias.get())
        self._copies.pop(storage, None)

    def attribute(self, output: Any, error: Any) -> Attribution:
        """Return the shares of the error of a tensor."""
        size = float(torch.linalg.vector_norm(error))
        if not 0.0 < size < float("inf"):
            return Attribution({}, {})
        back = _Back()
        back.add(self._region(output), (error / size).to(_gradient_dtype(output.dtype)))
        for entry in reversed(self._entries):
            back.pass_entry(entry)
        numbers = [*back.products]
        products = torch.stack([*back.products.values()]).tolist() if numbers else []
        shares = {number: product / size for number, product in zip(numbers, products, strict=True)}
        unreached = {entry.number: 0.0 for entry in self._entries if entry.number not in back.unknown}
        return Attribution(unreached | shares, back.cuts)


class _Back:
    """Gradients of one output by storage, on the way back through the operations."""

    def __init__(self) -> None:
        self.products: dict[int, Any] = {}
        self.cuts: dict[int, str] = {}
        self.unknown: set[int] = set()
        self._gradients: dict[int, Any] = {}
        self._behind_cut: set[int] = set()

    def add(self, region: _Region, gradient: Any) -> None:
        """Add a gradient to a part of a storage. A part may see an element several times."""
        flat = self._gradients.get(region.storage)
        if flat is None:
            flat = torch.zeros(region.length, dtype=gradient.dtype, device=gradient.device)
            self._gradients[region.storage] = flat
        if any(stride == 0 and size > 1 for size, stride in zip(region.shape, region.stride, strict=True)):
            places = region.view(torch.arange(region.length, device=gradient.device)).reshape(-1)
            flat.index_add_(0, places, gradient.reshape(-1).to(flat.dtype))
        else:
            region.view(flat).add_(gradient)

    def pass_entry(self, entry: _Entry) -> None:
        """Take the gradients of an operation's results, and add the gradients of its inputs."""
        gradients: list[Any] = []
        behind = False
        for made in entry.made:
            flat = self._gradients.get(made.region.storage)
            behind = behind or made.region.storage in self._behind_cut
            gradients.append(None if flat is None else self._take(made, flat))
        if behind:
            self._mark(entry)
        if all(each is None for each in gradients):
            return
        for made, gradient in zip(entry.made, gradients, strict=True):
            if gradient is not None and made.own is not None and not behind:
                product = _product(gradient, made.own.get())
                self.products[entry.number] = self.products.get(entry.number, 0.0) + product
        if not any(read.is_inexact for read in entry.inputs.reads):
            return
        try:
            self._add_inputs(entry, gradients)
        # torch states in many ways that an operation has no derivative.
        except Exception as failure:
            self.cuts[entry.number] = " ".join(str(failure).split())[:160] or type(failure).__name__
            self._mark(entry)

    def _take(self, made: _Made, flat: Any) -> Any:
        gradient = made.region.view(flat).clone()
        if made.written is None and made.region.fills:
            del self._gradients[made.region.storage]
        else:
            made.region.view(flat).zero_()
        return gradient

    def _mark(self, entry: _Entry) -> None:
        """Note that the shares of all operations before this one are not known."""
        if entry.number not in self.cuts:
            self.unknown.add(entry.number)
        self._behind_cut |= {read.region.storage for read in entry.inputs.reads if read.is_inexact}

    def _add_inputs(self, entry: _Entry, gradients: Sequence[Any]) -> None:
        inputs = entry.inputs
        if inputs.way is None:
            self._run_again(entry, gradients)
        elif gradients[0] is not None:
            slots = entry.facts.given(inputs.args, inputs.kwargs)
            given = {
                name: inputs.reads[each.at].load() if isinstance(each, _Slot) else each for name, each in slots.items()
            }
            for name, gradient in inputs.way.back(given, gradients[0], inputs.inexact).items():
                self.add(inputs.reads[slots[name].at].region, gradient)

    def _run_again(self, entry: _Entry, gradients: Sequence[Any]) -> None:
        reads = entry.inputs.reads
        given = entry.facts.given(entry.inputs.args, entry.inputs.kwargs)
        fixed = {given[name].at for name in entry.facts.statistics}
        wants = [read.is_inexact and at not in fixed for at, read in enumerate(reads)]
        leaves = [read.load().contiguous() if read.value is None else read.load() for read in reads]
        # An alias of a tensor must not change that one's flag.
        leaves = [leaf.detach().requires_grad_(want) for leaf, want in zip(leaves, wants, strict=True)]
        with torch.enable_grad():
            # torch refuses to write a tensor whose gradient is wanted, and takes a copy of it.
            passed = [leaf.clone() if at in entry.inputs.written else leaf for at, leaf in enumerate(leaves)]
            results = flat_leaves(_run(entry, passed, is_first=all(each is None for each in gradients[1:])))
        outs = [passed[made.written] if made.written is not None else results[made.at] for made in entry.made]  # type: ignore[index]
        known = [(out, each) for out, each in zip(outs, gradients, strict=True) if each is not None]
        if not all(out.requires_grad for out, _ in known):
            raise NotImplementedError("no derivative")
        wanted = [(leaf, read) for leaf, read, want in zip(leaves, reads, wants, strict=True) if want]
        found = torch.autograd.grad(
            [out for out, _ in known],
            [leaf for leaf, _ in wanted],
            [each.to(out.dtype) for out, each in known],
            allow_unused=True,
        )
        for gradient, (_, read) in zip(found, wanted, strict=True):
            if gradient is not None:
                self.add(read.region, self._finite(entry, gradient))

    def _finite(self, entry: _Entry, gradient: Any) -> Any:
        """Leave out infinite derivatives, such as a root's at 0: they are the limit of no first order."""
        finite = gradient.isfinite()
        if bool(finite.all()):
            return gradient
        self.cuts.setdefault(entry.number, f"infinite derivative of {int((~finite).sum())} elements")
        return gradient.masked_fill(~finite, 0.0)


def _product(gradient: Any, own: Any) -> Any:
    """Return the inner product of a gradient and an own error, added up in float64."""
    if gradient.is_complex():
        return torch.sum(gradient.conj() * own).real.double()
    real = own.real if own.is_complex() else own
    return torch.dot(gradient.double().reshape(-1), real.double().reshape(-1))


def _run(entry: _Entry, passed: Sequence[Any], *, is_first: bool) -> Any:
    """Run an operation again on values that note its derivative; `is_first` limits it to the first result."""

    def leaf(value: Any) -> Any:
        if isinstance(value, _Slot):
            return passed[value.at]
        return _gradient_dtype(value) if isinstance(value, torch.dtype) else value

    args, kwargs = map_leaves(leaf, entry.inputs.args), map_leaves(leaf, entry.inputs.kwargs)
    ruled = apply_rule(entry.facts, args, kwargs, entry.low)
    # torch has no derivative with respect to running statistics, which an earlier batch made inexact.
    is_own = is_first and entry.facts.keeps_for_backward and not entry.inputs.inexact & {*entry.facts.hidden_writes}
    if ruled is None and not is_own:
        ruled = derivable_form(entry.facts, args, kwargs)
    out = kwargs.get("out")
    if ruled is None and isinstance(out, torch.Tensor):
        # torch has no derivative of a call with `out`, which may be an input, too.
        others = {name: value for name, value in kwargs.items() if name != "out"}
        given = map_leaves(lambda value: value.clone() if value is out else value, args)
        return out.copy_(entry.func.overloadpacket(*given, **others))
    return entry.func(*args, **kwargs) if ruled is None else ruled


def _gradient_dtype(dtype: Any) -> Any:
    """Return the dtype of gradients: float32 at least, because float16 has too small a range for them."""
    if dtype.is_complex:
        return torch.complex128 if dtype is torch.complex128 else torch.complex64
    if dtype.is_floating_point and dtype is not torch.float64:
        return torch.float32
    return dtype


def flat_leaves(tree: Any) -> list[Any]:
    """Return the values of nested results in their order."""
    if isinstance(tree, list | tuple):
        return [leaf for each in tree for leaf in flat_leaves(each)]
    return [tree]
