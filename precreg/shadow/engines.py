"""Which engines see a computation, and which of them knows a value?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Self

from numpy import asarray
from numpy.typing import NDArray

from precreg.arithmetic import DTYPE_NAMES, dtype_name
from precreg.errors import UserError
from precreg.shadow.engine import Engine
from precreg.shadow.recorder import Observed, Recorder
from precreg.shadow.site import user_site
from precreg.shadow.sizes import error_size, value_range
from precreg.subject import is_tensor, receive_probes, tensor_to_array
from precreg.types import Operation, TracedArray

if TYPE_CHECKING:
    from precreg.arithmetic.devices import Arithmetic

# The engines change numpy and torch for the whole process, so a process has one trace at a time.
_running = Lock()


class RunningEngines:
    """Run the engines of all front ends inside a `with` block, and record the values that the block probes.

    Only the thread that enters the block is traced. `module` names layers of torch.
    """

    def __init__(
        self,
        recorder: Recorder,
        module: object = None,
        arithmetic: Arithmetic | None = None,
        wide: str | None = None,
        *,
        shares: bool = True,
        jitter: bool = False,
    ) -> None:
        # The shadows of torch round in another way.
        self._jitter = jitter
        self._recorder, self._module, self._arithmetic = recorder, module, arithmetic
        # The dtype of shadows of numpy; None lets the engine choose.
        self._wide = wide
        # Without shares no engine keeps the values of its operations.
        self._shares = shares
        self._engines: Sequence[Engine] = ()
        self._stack = ExitStack()
        self._thread = 0

    def __enter__(self) -> Self:
        """Start the engines. Raises UserError: nested-trace."""
        if not _running.acquire(blocking=False):
            raise UserError("nested-trace", "expected one trace at a time but a trace already runs in this process")
        with ExitStack() as stack:
            stack.callback(_running.release)
            self._thread = get_ident()
            self._engines = [stack.enter_context(engine) for engine in self._front_ends()]
            self._recorder.give_lookup(self)
            if "onnxruntime" in sys.modules:
                from precreg.shadow.onnx import sessions_noted

                stack.enter_context(sessions_noted(self._recorder))
            receive_probes(self._record_probe)
            stack.callback(receive_probes, None)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        try:
            self._recorder.give_lookup(None)
        finally:
            self._stack.__exit__(*exception)

    def _front_ends(self) -> list[Engine]:
        from precreg.shadow.numpy import NumpyEngine

        arrays = NumpyEngine(self._recorder, self._arithmetic, self._wide, shares=self._shares)
        engines: list[Engine] = [arrays]
        # A function that computes with torch has imported it before it is called.
        if "torch" in sys.modules:
            from precreg.shadow.torch import TorchEngine

            engines.append(
                TorchEngine(self._recorder, self._module, shares=self._shares, arrays=arrays, jitter=self._jitter)
            )
        return engines

    @property
    def shadow_dtype(self) -> str:
        """Return the dtype of shadows: torch's dtype, if torch computed."""
        for each in self._engines:
            if getattr(each, "has_run", False) and hasattr(each, "shadow_dtype"):
                return str(each.shadow_dtype)
        return next((each.shadow_dtype for each in self._engines if hasattr(each, "shadow_dtype")), "float64")

    def wrap(self, value: Any) -> Any:
        """Return an input in the form that its engine sees; any other value unchanged."""
        for engine in self._engines:
            value = engine.wrap(value)
        return value

    def unwrap(self, value: Any) -> Any:
        """Return the plain array or tensor of a result; any other value unchanged."""
        for engine in self._engines:
            value = engine.unwrap(value)
        return value

    def shadow_of(self, value: Any) -> NDArray[Any] | None:
        """Return the shadow of a value, on the host; None if no engine knows it."""
        with _unseen():
            return next((found for each in self._engines if (found := each.shadow_of(value)) is not None), None)

    def shares(self, outputs: Mapping[str, Any]) -> dict[str, float]:
        """Record the shares of each output's error, and return their sums by output."""
        sums: dict[str, float] = {}
        for engine in self._engines:
            for output, shares in engine.shares(outputs).items():
                self._recorder.set_shares(output, shares)
                sums[output] = sums.get(output, 0.0) + sum(shares.values())
        return sums

    def plain_array(self, name: str, value: Any) -> NDArray[Any]:
        """Return a result as an array on the host. Raises UserError (bad-outputs)."""
        with _unseen():
            plain = self.unwrap(value)
            return tensor_to_array(plain, f"output {name}", "bad-outputs") if is_tensor(plain) else asarray(plain)

    def _record_probe(self, name: str, value: object) -> None:
        actual = self._probed_array(name, value)
        if actual is None:
            self._recorder.note_event("untraced", name, user_site(depth=2), detail=type(value).__name__)
            return
        exact = self.shadow_of(value)
        array = TracedArray(dtype_name(actual.dtype), actual.shape)
        operation = Operation(
            number=self._recorder.next_number(),
            name=name,
            engine="torch" if is_tensor(value) else "numpy",
            site=user_site(depth=2),
            phase=self._recorder.phase,
            step=self._recorder.step,
            dtype=array.dtype,
            shape=array.shape,
            inputs=(array,),
            total=None if exact is None else error_size(actual, exact),
            range=value_range(actual, exact),
            note="probe",
        )
        self._recorder.record(Observed(operation, actual, exact))

    def _probed_array(self, name: str, value: object) -> NDArray[Any] | None:
        """Return a probed value on the host; None for other threads' values and for those that are no numbers."""
        if get_ident() != self._thread:
            return None
        # A probe must not stop the program that it looks at.
        try:
            array = self.plain_array(name, value)
        except (UserError, ValueError, TypeError):
            return None
        return array if dtype_name(array.dtype) in DTYPE_NAMES else None


@contextmanager
def _unseen() -> Iterator[None]:
    """Hide the conversions of precreg itself from the engine of torch."""
    if "torch" not in sys.modules:
        yield
        return
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield
