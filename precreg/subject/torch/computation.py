"""How is a specification of torch computed: tensors in, one timed call, arrays out?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from time import perf_counter_ns
from typing import Any

import torch

from precreg.errors import UserError
from precreg.subject.call import Call, Observer, Outputs, name_outputs, output_leaves
from precreg.subject.module_space import enter_module_space, leave_module_space
from precreg.subject.surroundings import SurroundingsRestored
from precreg.subject.tensors import array_to_tensor
from precreg.subject.torch.advice import advised
from precreg.subject.torch.compilation import begin_compilation, compiled, compiler_facts
from precreg.subject.torch.gradients import backward
from precreg.subject.torch.hardware import describe_hardware, find_device, wait_for
from precreg.subject.torch.module import Built, built_module, rounded_weights
from precreg.subject.torch.monitored import layer_outputs
from precreg.subject.torch.settings import seed_as_specified, settings_of
from precreg.subject.torch.specification import WIDENED
from precreg.subject.torch.widening import widened

Tensors = dict[str, Any]

# Words of torch's errors for a dtype that a kernel does not take: of its dispatch, its registry, and its FFT.
_NO_KERNEL = ("not implemented for", "Could not run", "Unsupported dtype")


def compute_torch(spec: dict[str, Any], call: Call) -> Outputs:
    """Compute a specification on copies of the inputs, and time the call (with gradients, the backward pass, too).

    Raises as `run_torch` does.
    """
    with _place(spec, call) as (built, device):
        outputs = _timed(spec, call, built, device, lambda: _prepared(spec, built, device))
        # A trace sees the layers itself.
        if "monitor" not in spec or call.observer is not None:
            return outputs
        return outputs._replace(arrays=outputs.arrays | _layers(spec, call, built, device, outputs))


def _layers(spec: dict[str, Any], call: Call, built: Built, device: Any, outputs: Outputs) -> Tensors:
    """Return the outputs of the monitored layers from a call of its own, so that the measured time has no hooks."""
    with _modes(spec, built, device) as autocast:
        module, inputs, params = _prepared(spec, built, device), _inputs(spec, call, device), deepcopy(call.params)
        seed_as_specified(spec)
        with advised(spec, module, inputs, params), autocast():
            found = layer_outputs(spec, module, lambda: module(**inputs, **params))
    _require_own_names(outputs.arrays, found)
    return found


@contextmanager
def run_prepared(spec: dict[str, Any], call: Call) -> Iterator[tuple[Any, Callable[[], Outputs]]]:
    """Give the function or module of one call, and a function that makes the call. Raises as `run_torch` does."""
    with _place(spec, call) as (built, device):
        function = _prepared(spec, built, device)
        yield function, lambda: _timed(spec, call, built, device, lambda: function)


@contextmanager
def _place(spec: dict[str, Any], call: Call) -> Iterator[tuple[Built, Any]]:
    """Give the object of a specification and its device, with the settings of the specification inside."""
    space = enter_module_space(call.directory, call.project)
    try:
        with SurroundingsRestored(), settings_of(spec), _clear_errors(spec):
            device = find_device(spec.get("on", "cpu"))
            yield built_module(spec, call, space), device
    finally:
        leave_module_space()


def _inputs(spec: dict[str, Any], call: Call, device: Any) -> Tensors:
    """Return the inputs as tensors on the device; floating ones require a gradient if the specification asks for it."""
    tensors = {name: array_to_tensor(array, f"input {name}").to(device) for name, array in call.inputs.items()}
    if "inputs" in spec.get("gradients", ()):
        for tensor in tensors.values():
            tensor.requires_grad_(tensor.is_floating_point() or tensor.is_complex())
    return tensors


def _prepared(spec: dict[str, Any], built: Built, device: Any) -> Callable[..., Any]:
    """Return the function, or a module of this call's own on the device; compiled if the specification asks for it."""
    function: Callable[..., Any] = built.fresh()
    if built.build is not None:
        function = function.to(device)  # type: ignore[attr-defined]
    return compiled(function, spec) if "compile" in spec else function


def _timed(
    spec: dict[str, Any], call: Call, built: Built, device: Any, prepare: Callable[[], Callable[..., Any]]
) -> Outputs:
    with _modes(spec, built, device) as autocast:
        if "compile" in spec and begin_compilation(spec, call):
            # On a module and inputs that are used up: the measured call begins anew.
            used_up, params = _inputs(spec, call, device), deepcopy(call.params)
            _run_once(_prepared(spec, built, device), used_up, params, spec, built, autocast)
        function, inputs, params = prepare(), _inputs(spec, call, device), deepcopy(call.params)
        if call.observer is not None and (rounded := rounded_weights(built))[0]:
            call.observer.note_rounded_weights(spec["torch"], spec["dtype"], *rounded)
        seed_as_specified(spec)
        wait_for(device)
        started = perf_counter_ns()
        if call.observer is None:
            returned, gradients = _run_once(function, inputs, params, spec, built, autocast)
        else:
            returned, gradients = _run_observed(call.observer, function, inputs, params, spec, built, autocast), {}
        wait_for(device)
        duration_s = (perf_counter_ns() - started) / 1e9
        facts = describe_hardware(device) | compiler_facts(spec)
    arrays = name_outputs(returned)
    _require_own_names(arrays, gradients)
    return Outputs(arrays | name_outputs(gradients), duration_s, facts)


def _require_own_names(outputs: Mapping[str, object], added: Mapping[str, object]) -> None:
    for name in added:
        if name in outputs:
            message = f"expected another name than that of the added output {name} but an output has it"
            raise UserError("bad-outputs", message)


def _run_once(
    function: Callable[..., Any],
    inputs: Tensors,
    params: dict[str, Any],
    spec: dict[str, Any],
    built: Built,
    autocast: Callable[[], Any],
) -> tuple[object, Tensors]:
    """Return the outputs and the gradients by name."""
    with advised(spec, function, inputs, params), autocast():
        returned = function(**inputs, **params)
    if isinstance(returned, torch.nn.Module):
        advice = "if it is a factory, write arguments: {} beside it"
        raise UserError("bad-outputs", f"expected tensors but {spec['torch']} returned a module; {advice}")
    # Autocast does not enclose the backward pass, as torch advises.
    return returned, backward(returned, inputs, function, built.groups) if spec.get("gradients") else {}


def _run_observed(
    observer: Observer,
    function: Callable[..., Any],
    inputs: Tensors,
    params: dict[str, Any],
    spec: dict[str, Any],
    built: Built,
    autocast: Callable[[], Any],
) -> object:
    """Return the outputs and the gradients of one observed run, in one dict."""

    def compute(**named: Any) -> dict[str, Any]:
        tensors = {name: named.pop(name) for name in inputs}
        returned, gradients = _run_once(function, tensors, named, spec, built, autocast)
        leaves = dict(output_leaves(returned))
        _require_own_names(leaves, gradients)
        return leaves | gradients

    # torch.compile keeps the module that it compiles.
    observer.watch_module(getattr(function, "_orig_mod", function))
    return observer.call(compute, (), {**inputs, **params})


@contextmanager
def _modes(spec: dict[str, Any], built: Built, device: Any) -> Iterator[Callable[[], Any]]:
    """Set the gradient mode of a call inside, and give the context of its autocast."""
    with ExitStack() as stack:
        # As in use: an evaluated module records nothing, and takes torch's fast paths. A function decides for itself.
        if built.build is not None and spec.get("mode") != "train" and not spec.get("gradients"):
            stack.enter_context(torch.no_grad())
        if "autocast" in spec:
            dtype = getattr(torch, spec["autocast"])
            yield lambda: torch.autocast(device.type, dtype=dtype)
        else:
            yield widened if WIDENED in spec else ExitStack


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether torch, numpy or Python lacked memory."""
    # torch has no class for the memory of the CPU.
    is_of_cpu = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    return is_of_cpu or isinstance(error, torch.OutOfMemoryError | MemoryError)


@contextmanager
def _clear_errors(spec: dict[str, Any]) -> Iterator[None]:
    """Turn errors of torch that say nothing of the case into one message with a remedy."""
    place = spec.get("on", "cpu")
    try:
        yield
    except RuntimeError as error:
        first = str(error).partition("\n")[0][:300]
        if is_out_of_memory(error):
            message = f"expected memory for {spec['torch']} on {place} but got {type(error).__name__}: {first}"
            raise UserError("out-of-memory", message) from error
        if any(words in first for words in _NO_KERNEL):
            message = f"expected kernels of {place} for the dtypes of {spec['torch']} but torch says: {first}"
            raise UserError("unsupported-dtype", message) from error
        raise
