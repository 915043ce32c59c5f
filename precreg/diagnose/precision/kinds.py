"""How does each kind of subject compute some of its parts in a wider dtype, and which parts does it have?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec.structs import replace

from precreg.arithmetic import FORMATS
from precreg.diagnose.precision.parts import group_parts
from precreg.errors import UserError
from precreg.run import draw_inputs, suite_folder
from precreg.storage import DEVICES_FOLDER
from precreg.subject import Call
from precreg.subject.torch import NARROWER, OWN_SUFFIX, weights_by_module
from precreg.types import Case, Computation, Operation, PartKind, PrecisionPart, Trace

if TYPE_CHECKING:
    from precreg.arithmetic.devices import Arithmetic

KEEP_IN, WIDE = "keep_in", "wide"


class Altered(NamedTuple):
    """A case with some parts in the wider dtype, and the arithmetic of its simulated device if it has one."""

    case: Case
    arithmetic: Arithmetic | None = None


class KeepSetting(NamedTuple):
    """The keys that keep parts in the wider dtype, and the file that they belong to."""

    keys: dict[str, Any]
    place: str


class PartSource(Protocol):
    """One kind of subject: its parts, and the case with some of them in the wider dtype."""

    kind: PartKind
    narrow: str
    wide: str
    # True if a trace can run with some parts in the wider dtype.
    has_retrace: bool
    # True if the runtime computes chains of parts in a wider dtype by itself.
    widened_by_runtime: bool

    def parts(self, trace: Trace, output: str) -> list[PrecisionPart]:
        """Return the parts of a traced run, in order of execution."""

    def setting(self, members: Sequence[str]) -> KeepSetting:
        """Return the configuration with the members of parts."""

    def altered(self, keys: Mapping[str, Any]) -> Altered:
        """Return the case with the keys of a configuration."""

    def file(self, keys: Mapping[str, Any], text: str) -> bytes:
        """Return the content of a file that holds a configuration."""


def bytes_of(dtype: str) -> int:
    """Return the bytes of an element of a floating dtype."""
    return {"float64": 8, "float32": 4}.get(dtype, 2 if FORMATS[dtype].precision > 4 else 1)


class TorchModules:
    """The modules of a network of torch."""

    kind: PartKind = "modules"
    has_retrace, widened_by_runtime = True, False

    def __init__(self, case: Case, project: Path, wide: str) -> None:
        spec: dict[str, Any] = case.subject.spec
        self.narrow, self.wide, self._case = spec.get("autocast") or spec.get("dtype", ""), wide, case
        if self.narrow not in NARROWER[wide]:
            expected = f"a module with dtype or autocast of {', '.join(NARROWER[wide])}"
            raise UserError("untraceable", f"expected {expected} but {case.id} has {self.narrow or 'none of them'}")
        folder = suite_folder(project, case.directory)
        call = Call(draw_inputs(case, 0, folder, project), case.params, folder, project)
        self._weights = weights_by_module(spec, call)
        if not self._weights:
            raise UserError("untraceable", f"expected a module of torch but {case.id} calls a function")

    def parts(self, trace: Trace, output: str) -> list[PrecisionPart]:
        """Return the modules that run, each with the code of its own alone if modules below it run."""
        ran = {self._module(each) for each in trace.operations}
        growth = bytes_of(self.wide) - bytes_of(self.narrow)
        grouped = group_parts(trace, output, self._module, growth)
        return [self._named(part, ran, growth) for part in grouped]

    def _module(self, operation: Operation) -> str:
        """Return the nearest module that the network has: code may make others while it runs."""
        path = operation.site.module
        while path not in self._weights:
            path = path.rpartition(".")[0]
        return path

    def _named(self, part: PrecisionPart, ran: set[str], growth: int) -> PrecisionPart:
        path = part.name
        below = {name for name in self._weights if not path or name.startswith(f"{path}.")} - {path}
        # A module may use the weights of modules below it that never run.
        is_own = bool(below) and any(name in ran for name in below)
        name = f"{path}{OWN_SUFFIX}" if is_own or not path else path
        held = self._weights[path] + (0 if is_own else sum(self._weights[each] for each in below))
        # Autocast keeps weights in float32 anyway.
        extra = 0 if "autocast" in self._case.subject.spec else growth * held
        return replace(part, name=name, members=(name,), parameters=held, weight_bytes=extra)

    def setting(self, members: Sequence[str]) -> KeepSetting:
        """Return keep_in with the modules, beside those that the case keeps already."""
        before: dict[str, list[str]] = self._case.subject.spec.get(KEEP_IN, {})
        names = [*before.get(self.wide, []), *members]
        return KeepSetting({KEEP_IN: {**before, self.wide: names}} if names else {}, self._case.source.file)

    def altered(self, keys: Mapping[str, Any]) -> Altered:
        """Return the case with another keep_in."""
        spec = {**self._case.subject.spec, **keys}
        return Altered(replace(self._case, subject=Computation(self._case.subject.kind, spec)))

    def file(self, keys: Mapping[str, Any], text: str) -> bytes:
        """Return the text."""
        return text.encode()


class OnnxNodes:
    """The nodes of an ONNX model in float16 or bfloat16, grouped by the module that they come from."""

    kind: PartKind = "nodes"
    has_retrace = True

    def __init__(self, case: Case, project: Path, wide: str) -> None:
        from precreg.subject.onnx import ROUND_NODES, node_groups, read_model

        spec: dict[str, Any] = case.subject.spec
        if wide != "float32":
            raise UserError(
                "bad-value",
                f"expected --keep-in float32 for nodes of ONNX but got {wide}",
                hint="write --keep-in float32",
            )
        self._case, self.wide = case, wide
        self._folder, self._project = suite_folder(project, case.directory), project
        self._groups = node_groups(read_model(spec["model"], self._folder, project))
        if not self._groups:
            message = f"expected nodes in float16 or bfloat16 but the model of {case.id} has none"
            raise UserError("untraceable", message)
        self.narrow = next(iter(self._groups.values())).dtype
        self._of_node = {node: name for name, group in self._groups.items() for node in group.nodes}
        self.widened_by_runtime = ROUND_NODES not in spec and "providers" not in spec

    def parts(self, trace: Trace, output: str) -> list[PrecisionPart]:
        """Return the groups of nodes that run."""
        growth = bytes_of(self.wide) - bytes_of(self.narrow)
        # The casts of round_nodes are no nodes of the model.
        grouped = group_parts(trace, output, self._group, growth, free=("Cast",))
        return [self._with_nodes(part, growth) for part in grouped]

    def _group(self, operation: Operation) -> str | None:
        from precreg.subject.onnx import CAST_MARK

        name = operation.site.module.partition(CAST_MARK)[0]
        return name if name in self._groups else self._of_node.get(name)

    def _with_nodes(self, part: PrecisionPart, growth: int) -> PrecisionPart:
        group = self._groups[part.name]
        weight_bytes = growth * group.weights
        return replace(part, members=group.nodes, parameters=group.weights, weight_bytes=weight_bytes)

    def setting(self, members: Sequence[str]) -> KeepSetting:
        """Return keep_in with the nodes, beside those that the case keeps already."""
        names = [*self._case.subject.spec.get(KEEP_IN, {}).get(self.wide, []), *members]
        return KeepSetting({KEEP_IN: {self.wide: names}} if names else {}, self._case.source.file)

    def altered(self, keys: Mapping[str, Any]) -> Altered:
        """Return the case with another keep_in."""
        spec = {**self._case.subject.spec, **keys}
        return Altered(replace(self._case, subject=Computation(self._case.subject.kind, spec)))

    def file(self, keys: Mapping[str, Any], text: str) -> bytes:
        """Return the model with its kept nodes, as ONNX Runtime runs it; it rounds no other results."""
        from precreg.subject.onnx import mixed_file, read_model

        return mixed_file(read_model(self._case.subject.spec["model"], self._folder, self._project), keys[KEEP_IN])


class DeviceLines:
    """The lines of code whose operations a simulated device computes. A wider unit computes in float64."""

    kind: PartKind = "lines"
    has_retrace, widened_by_runtime = False, False
    wide = "float64"

    def __init__(self, case: Case, project: Path, device: str) -> None:
        from precreg.arithmetic.devices import device_named, own_device

        self._case, self.narrow = case, device
        self._device = device_named(device, project)
        self._is_own = own_device(device, project) is not None

    def parts(self, trace: Trace, output: str) -> list[PrecisionPart]:
        """Return the lines that compute. Results keep their dtype and so their size in memory."""
        return group_parts(trace, output, _line, growth=0)

    def setting(self, members: Sequence[str]) -> KeepSetting:
        """Return the operations of the wider unit, for the table of the project or for a new one like a shipped one."""
        places = [*self._device.wide, *members]
        if not places:
            return KeepSetting({}, "")
        if self._is_own:
            return KeepSetting({WIDE: places}, f"{DEVICES_FOLDER}/{self.narrow}.yaml")
        about = f"{self.narrow} with a wider unit for some operations"
        return KeepSetting(
            {"about": about, "like": self.narrow, WIDE: places}, f"{DEVICES_FOLDER}/{self.narrow}-wide.yaml"
        )

    def altered(self, keys: Mapping[str, Any]) -> Altered:
        """Return the case on the device with another wider unit."""
        from precreg.arithmetic.devices import arithmetic_of_device

        return Altered(self._case, arithmetic_of_device(replace(self._device, wide=tuple(keys.get(WIDE, ())))))

    def file(self, keys: Mapping[str, Any], text: str) -> bytes:
        """Return the text."""
        return text.encode()


def _line(operation: Operation) -> str | None:
    site = operation.site
    return f"{site.file}:{site.line}" if site.file and operation.note != "moved" else None
