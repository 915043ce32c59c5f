"""Which functions do programs call? `compare` measures two arrays, `trace` and `monitor` show where precision is lost.

They need no project, and give no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, update_wrapper
from html import escape
from inspect import iscoroutinefunction, isgeneratorfunction
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from precreg.arithmetic import dtype_name
from precreg.errors import UserError
from precreg.measure import compare_on_demand
from precreg.subject import is_tensor, tensor_to_array
from precreg.tolerance import SHIPPED_STANDARD, DtypeLimits, find_standard, limit_problem
from precreg.types import Comparison, Operation, Trace

if TYPE_CHECKING:
    from precreg.quantization.torch import QuantizationObserver
    from precreg.shadow import TracedBlock
    from precreg.shadow.monitor import Monitor
    from precreg.training.observing import TrainingObserver


def compare(
    actual: ArrayLike,
    reference: ArrayLike,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    standard: str | None = None,
    analyzers: Sequence[str] = (),
    threads: int | None = None,
    worst: int = 100,
) -> Comparison:
    """Measure how far `actual` is from `reference`, which is the same in the same or in higher precision.

    Args:
        actual: the result under test: an array of any shape, dtype and layout, a tensor, or input of numpy.asarray.
        reference: an array of the same shape; its dtype may be wider. Nothing is broadcast.
        rtol: relative tolerance: an element matches if |a - r| <= atol + rtol * |r|.
        atol: absolute tolerance, in the unit of the values. rtol and atol default to those of `standard` for the
            actual's dtype, or to the shipped standard's if `standard` does not list the dtype.
        standard: the name of a published standard (docs/standards.md). Only its rtol, atol and regions apply, because
            a measurement needs no bounds.
        analyzers: names of installed analyzers (docs/analyzers.md) that also measure the arrays.
        threads: the number of threads for large arrays; it changes no bit. None leaves the number to precreg.
        worst: the number of positions with the largest errors to name.

    Returns:
        Measurements without judgement: `metrics` and `counts` by name (docs/metrics.md has units and formulas), `worst`
        and `non_finite` positions, and a histogram of errors. Arrays of different shapes have no metrics.
        The first read of a field computes it; the arrays may change after the call.

    Raises:
        UserError: bad-value or unknown-dtype for arrays of other things than numbers or with masked elements;
            unknown-standard; unknown-analyzer, bad-analyzer, analyzer-failed.
    """
    a, r = _as_array("actual", actual), _as_array("reference", reference)
    of_standard = _measuring_limits(a.dtype, _check_name(standard))
    rtol = of_standard.bounds["rtol"] if rtol is None else _check_limit("rtol", rtol)
    atol = of_standard.bounds["atol"] if atol is None else _check_limit("atol", atol)
    regions = of_standard.regions
    comparison = compare_on_demand(a, r, rtol=rtol, atol=atol, worst=worst, threads=threads, regions=regions)
    return _add_analyzers(comparison, a, r, analyzers, threads or 1) if analyzers else comparison


def monitor(model: Any, layers: Sequence[str] | None = None, *, every: int = 10, keep: int = 1000) -> Monitor:
    """Return a monitor that measures the layers of a module of torch at every Nth step; docs/monitor.md has examples.

    It starts with a `with` block, or with `start()`, and changes no bit of the module's results.

    Args:
        model: a torch.nn.Module that you train or use. Each call of it is a step.
        layers: patterns of names of layers, such as ["layer4.*"], where * matches dots, too. None takes the layers
            that have no layers inside.
        every: sample the first step, and every Nth after it. Other steps cost next to nothing.
        keep: the number of sampled steps to keep; the oldest make room for later ones.

    Raises:
        UserError: unknown-node for a pattern without a layer; bad-value, also for a compiled or parallel module,
            and for one of TorchScript.
    """
    # With torch, and only for those who monitor.
    from precreg.report import render_monitor_html
    from precreg.shadow.monitor import Monitor

    return Monitor(model, layers, every, keep, render_monitor_html)


def observe(
    model: Any,
    optimizer: Any,
    scaler: Any = None,
    *,
    every: int = 10,
    keep: int = 1000,
    elements: int | None = 2**14,
    format: str | None = None,
) -> TrainingObserver:
    """Return an observer of a training: gradients, lost updates and loss scales; docs/training.md has examples.

    It starts with a `with` block, or with `start()`, and changes no bit of the training.

    Args:
        model: a torch.nn.Module that you train.
        optimizer: its torch.optim.Optimizer. Each update is a step.
        scaler: the torch.amp.GradScaler of the training, if it has one.
        every: sample the first step, and every Nth after it. Other steps cost next to nothing.
        keep: the number of sampled steps to keep; the oldest make room for later ones.
        elements: the most elements of a tensor to measure; the record names the sampled ones. None measures all.
        format: count subnormal, vanishing and overflowing gradients of this format, such as "float16"; by default that
            in which a gradient was computed.

    Raises:
        UserError: bad-value for a wrong argument, several optimizers, or a compiled or parallel module; unknown-format.
    """
    # With torch, and only for those who observe.
    from precreg.report import render_training_html, render_training_terminal
    from precreg.training.observing import start_observer

    return start_observer(
        model,
        optimizer,
        scaler,
        every=every,
        keep=keep,
        elements=elements,
        format=format,
        render=render_training_html,
        render_text=render_training_terminal,
    )


def observe_quantization(model: Any, optimizer: Any, *, every: int = 10, keep: int = 100_000) -> QuantizationObserver:
    """Return an observer of the fake quantizers of a quantization-aware training; docs/quantization-sensitivity.md.

    It starts with a `with` block, or with `start()`, and changes no bit of the training.

    Args:
        model: a torch.nn.Module with fake quantizers, as torch.ao.quantization.prepare_qat makes it.
        optimizer: the optimizer of torch whose step() ends a step of the training.
        every: sample the first step, and every Nth after it. Codes of weights are followed at every step.
        keep: the number of figures to keep, one for each fake quantizer and sampled step.

    Raises:
        UserError: bad-value for a model without fake quantizers, another optimizer, and numbers below 1.
    """
    # With torch, and only for those who observe.
    from precreg.quantization.torch import QuantizationObserver
    from precreg.report import render_quantization_steps_html, render_quantization_steps_terminal

    return QuantizationObserver(
        model,
        optimizer,
        every=every,
        keep=keep,
        render=render_quantization_steps_html,
        render_text=render_quantization_steps_terminal,
    )


def _add_analyzers(
    comparison: Comparison,
    actual: np.ndarray[Any, Any],
    reference: np.ndarray[Any, Any],
    analyzers: Sequence[str],
    threads: int,
) -> Comparison:
    if isinstance(analyzers, str):
        message = f"expected a list of names but got analyzers={analyzers!r}"
        raise UserError("bad-value", message, hint=f"write a list: analyzers=[{analyzers!r}]")
    from precreg.measure import add_analyzer_metrics  # most callers have no analyzers

    return add_analyzer_metrics(comparison, actual, reference, analyzers, threads)


def _as_array(name: str, given: ArrayLike) -> np.ndarray[Any, np.dtype[Any]]:
    if type(given) is np.ndarray:  # most calls: no subclass, whose mask or unit would need a look
        return given
    if is_tensor(given):
        return tensor_to_array(given, name, "bad-value")
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise UserError(
            "bad-value",
            f"expected no masked elements but got a mask: {name}.filled() has none",
            hint=f"fill the masked elements: {name}.filled(0)",
        )
    try:
        return np.asarray(given)
    except ValueError as problem:
        raise UserError(
            "bad-value",
            f"expected what numpy makes an array of but got {name}: {problem}",
            hint="give rows of one length: numpy.array([[1, 2], [3, 4]])",
        ) from problem


def _check_name(standard: str | None) -> str | None:
    if standard is not None and not isinstance(standard, str):
        raise UserError(
            "bad-value",
            f"expected a name such as 'flaggems-1:reduced=768' but got standard={standard!r}",
            hint="write the name as text: standard='torch-2.13'",
        )
    return standard


def _check_limit(key: str, given: float) -> float:
    number = float(given)
    if expected := _limit_problem(key, number):
        raise UserError(
            "bad-value", f"expected {expected} but got {key}={given}", hint=f"write such a number: {key}=1e-3"
        )
    return number


# Most calls repeat the limits of the call before, and limit_problem searches each for the name of an analyzer.
_limit_problem = lru_cache(maxsize=64)(limit_problem)


@lru_cache(maxsize=256)
def _measuring_limits(dtype: np.dtype[Any], standard: str | None) -> DtypeLimits:
    """Return rtol, atol and regions of a standard for a dtype; the shipped standard fills the gaps."""
    shipped, asked = (_standard_limits(name or SHIPPED_STANDARD, dtype) for name in (SHIPPED_STANDARD, standard))
    return DtypeLimits({**shipped.bounds, **asked.bounds}, regions=asked.regions)


def _standard_limits(standard: str, dtype: np.dtype[Any]) -> DtypeLimits:
    return find_standard(standard).limits(dtype_name(dtype)) or DtypeLimits()


class LiveTrace:
    """A trace of a block or of a function, as `trace` makes it.

    The trace exists when the block has ended, or the function has returned. An exception leaves the operations before
    it. Only the thread that enters is traced.
    """

    def __init__(self, target: Callable[..., Any] | None, **options: Any) -> None:
        """Take the options of `trace`. Raises UserError: bad-value, bad-watch."""
        if target is not None and not callable(target):
            message = f"expected a function or a module to trace but got {type(target).__name__}"
            raise UserError(
                "bad-value",
                message,
                hint="trace a call of the model: with precreg.trace(model) as t: model(x)",
            )
        if iscoroutinefunction(target) or isgeneratorfunction(target):
            message = "expected a function that returns its result but got a generator or coroutine"
            raise UserError(
                "bad-value",
                message,
                hint="trace a block of its body: with precreg.trace() as t: x = t.array(x)",
            )
        self._target, self._options = target, options
        self._name = getattr(target, "__qualname__", type(target).__name__) if target is not None else "block"
        self._block: TracedBlock | None = None
        self._trace: Trace | None = None
        self._begin()
        if target is not None:
            update_wrapper(self, target, updated=())

    def _begin(self) -> TracedBlock:
        from precreg.report import render_breakpoint, render_watched_value
        from precreg.shadow import Listeners, TracedBlock, read_watch_request

        given = self._options
        request = read_watch_request(given["detail"], given["watch"], given["breaks"], given["lanes"])
        listeners = Listeners(
            request,
            lambda value: print(render_watched_value(value)),
            lambda text, operation, names: print(render_breakpoint(text, operation, names)),
        )
        module = self._target if hasattr(self._target, "register_forward_hook") else None
        return TracedBlock(self._name, listeners, module=module, dtype=given["dtype"], shares=given["shares"])

    def __enter__(self) -> Self:
        """Trace the block. Raises UserError: nested-trace."""
        self._block = self._begin().start()
        return self

    def __exit__(self, *exception: Any) -> None:
        block, self._block = self._block, None
        if block is not None:
            self._trace = block.stop(*exception)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the traced function, and return its own result. Without a function, trace the given one."""
        if self._target is None:
            (function,) = arguments
            return LiveTrace(function, **self._options)
        if self._block is not None:
            # Inside a block the result goes on being traced.
            result = self._target(*self._block.wrap(arguments), **self._block.wrap(named))
            self._block.keep_outputs(result)
            return result
        with self:
            assert self._block is not None
            block = self._block
            result = self._target(*block.wrap(arguments), **block.wrap(named))
            block.keep_outputs(result)
            return block.unwrap(result)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Return the traced function bound to an instance, as methods are."""
        return self if instance is None else MethodType(self, instance)

    def array(self, value: Any) -> Any:
        """Return an array, or a structure of arrays, whose operations in this block are traced.

        Raises:
            UserError: bad-value, outside of the block.
        """
        return self._running("array").wrap(value)

    def output(self, name: str, value: Any) -> Any:
        """Return the value, and make it an output: the trace shares out its error among the operations.

        Raises:
            UserError: bad-value, outside of the block; bad-outputs, for a value without an array.
        """
        self._running("output").keep_output(name, value)
        return value

    def _running(self, method: str) -> TracedBlock:
        if self._block is None:
            message = f"expected a block that runs but got {method}() outside of it"
            raise UserError(
                "bad-value",
                message,
                hint="use the array in the block: with precreg.trace() as t: x = t.array(x)",
            )
        return self._block

    @property
    def trace(self) -> Trace:
        """Return the latest trace. Raises UserError (bad-value) before the first one."""
        if self._trace is None:
            message = f"expected a trace of {self._name} that has ended but there is none"
            raise UserError(
                "bad-value",
                message,
                hint="call the traced function first: f = precreg.trace(f); f(x); f.trace",
            )
        return self._trace

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Return the operations of the latest trace, in order of execution."""
        return self.trace.operations

    def show(self) -> None:
        """Print the latest trace as `precreg trace` does."""
        print(self._text())

    def save(self, file: str | Path) -> None:
        """Store the latest trace for `precreg trace show FILE`. Raises UserError: not-writable."""
        from precreg.shadow import write_trace

        write_trace(self.trace, Path(file))

    def report(self, file: str | Path) -> None:
        """Write the latest trace as an HTML page. Raises UserError: not-writable."""
        from precreg.report import render_trace_html
        from precreg.storage import replace_file, report_write_errors

        page = render_trace_html(self.trace)
        with report_write_errors(str(file)):
            replace_file(Path(file), page.encode())

    def _repr_html_(self) -> str:
        from precreg.report import render_trace_html

        # A frame of its own, because its styles would change the notebook. It needs nothing of the notebook.
        page = escape(render_trace_html(self.trace))
        return f'<iframe sandbox="allow-scripts" srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'

    def _text(self) -> str:
        from precreg.report import describe_unmatched, render_trace_terminal

        trace = self.trace
        return "\n".join([render_trace_terminal(trace), *map(describe_unmatched, trace.unmatched)])


def trace(
    target: Callable[..., Any] | None = None,
    *,
    detail: int = 2,
    watch: Sequence[str] = (),
    breaks: Sequence[str] = (),
    lanes: str | None = None,
    dtype: str | None = None,
    shares: bool = True,
) -> LiveTrace:
    """Trace a block, the calls of a function, or a module of torch: where does it lose precision?

    As a decorator, the function returns its own results, and `f.trace` has the latest trace. As a context manager,
    tensors of torch are traced as they are, and arrays of numpy from `t.array(x)` on.

    Args:
        target: a function, or a module of torch, which names the layers of a block; None for a block.
        detail: 0 measures the outputs, 1 total errors, 2 own errors and shares, 3 elements, which it prints.
        watch: names whose elements are printed each time they are computed, such as "scores[0, 0:8]".
        breaks: where pdb opens: an operation, "FILE:LINE", "nan", "inf", or a condition such as "error > 4 ulp".
        lanes: the elements of the last axis that a watch without its own selection prints, such as "0:8".
        dtype: the dtype whose rounding is normal; by default the coarsest of parameters, inputs and outputs.
        shares: measure the shares of the outputs' errors, by one backward pass.

    Raises:
        UserError: bad-value, bad-watch.
    """
    return LiveTrace(target, detail=detail, watch=watch, breaks=breaks, lanes=lanes, dtype=dtype, shares=shares)
