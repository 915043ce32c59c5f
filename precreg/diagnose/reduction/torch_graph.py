"""How do the operations of a torch call compute alone, and which module do some of them make?

torch.fx records the operations of aten that the call runs, without writes in place. So control flow is as it was in
this call, and casts of autocast are operations.
"""

from __future__ import annotations

import io
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os.path import realpath
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from precreg.diagnose.reduction.steps import ChainStep, ExactRun, KeptComputation, RecordedChain, boundary_of
from precreg.errors import UserError
from precreg.shadow import Detail, Recorder, relative_site
from precreg.shadow.torch import OperationPlaces, compute_exact, facts_of
from precreg.storage import write_safetensors
from precreg.subject import Observer, Outputs, array_to_tensor, tensor_to_array
from precreg.types import Case, Site, TraceEngine

# Options of a subject that decide how a module computes, and not which one.
_SETTINGS = ("on", "deterministic", "tf32", "matmul_precision", "threads")


class _GraphRecorder:
    """Observe one call of a function of torch, and record its graph, its sites and its values."""

    def __init__(self) -> None:
        self.graph: Any = None
        self.sites: dict[str, Site] = {}
        self.values: dict[str, Any] = {}
        self.names: list[str] = []
        self.problem = ""
        self._module: object = None

    def watch_module(self, module: object) -> None:
        """Learn the names of the layers of a module."""
        self._module = module

    def note_rounded_weights(self, module: str, dtype: str, changed: int, elements: int) -> None:
        """Ignore weights that were rounded before the call: they are constants of the graph."""

    def call(
        self,
        function: Callable[..., Any],
        arguments: Sequence[object],
        named: Mapping[str, Any],
        arithmetic: object = None,
    ) -> dict[str, Any]:
        """Return the outputs of a call by name."""
        tensors = {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}
        others = {name: value for name, value in named.items() if name not in tensors}

        def compute(*given: Any) -> list[Any]:
            leaves = function(*arguments, **dict(zip(tensors, given, strict=True)), **others)
            found = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
            self.names = [*found]
            return [*found.values()]

        given = [*tensors.values()]
        with self._sites_noted():
            try:
                self.graph = make_fx(torch.func.functionalize(compute, remove="mutations"))(*given)
            # The compiler of torch refuses programs with errors of many types.
            except Exception as error:
                self.problem = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                return dict(function(*arguments, **named))
        self.graph.graph.eliminate_dead_code()
        with torch.no_grad():
            found = _Values(self.graph, self.values).run(*given)
        return dict(zip(self.names, found, strict=True))

    @contextmanager
    def _sites_noted(self) -> Iterator[None]:
        create = torch.fx.Graph.create_node
        with OperationPlaces(Recorder(Detail.OUTPUTS), self._module) as places:

            def noted(graph: Any, *arguments: Any, **options: Any) -> Any:
                node = create(graph, *arguments, **options)
                self.sites[node.name] = places.find().site
                return node

            torch.fx.Graph.create_node = noted
            try:
                yield
            finally:
                torch.fx.Graph.create_node = create


class _Values(torch.fx.Interpreter):  # type: ignore[misc]
    """Run a graph and keep the values of its nodes."""

    def __init__(self, graph: Any, values: dict[str, Any]) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self._kept = values

    def run_node(self, n: Any) -> Any:
        """Run one node, and keep its value."""
        found = super().run_node(n)
        parts = found if isinstance(found, tuple | list) else [found]
        if n.op != "output":
            for name, part in zip(_names_of(n, len(parts)), parts, strict=True):
                if isinstance(part, torch.Tensor):
                    self._kept[name] = tensor_to_array(part.detach(), name)
        return found


def _names_of(node: Any, count: int) -> list[str]:
    """Return the names of a node's values: its own, or the names of a tuple's parts."""
    return [node.name] if count == 1 else [f"{node.name}__{place}" for place in range(count)]


def _is_part(node: Any) -> bool:
    return node.op == "call_function" and node.target is operator.getitem


class TorchChain:
    """The nodes of a graph as the steps of a chain."""

    engine: TraceEngine = "torch"

    def __init__(self, recorder: _GraphRecorder, project: Path) -> None:
        root = Path(realpath(project))
        graph = recorder.graph.graph
        self.low: Mapping[str, Any] = recorder.values
        self.nodes = [node for node in graph.nodes if node.op == "call_function" and not _is_part(node)]
        (last,) = [node for node in graph.nodes if node.op == "output"]
        returned = dict(zip(recorder.names, last.args[0], strict=True))
        self.outputs: Mapping[str, str] = {name: self.name_of(node) for name, node in returned.items()}
        self.steps: Sequence[ChainStep] = [self._step(node, recorder.sites, root) for node in self.nodes]
        # Weights, and values made of weights alone.
        self.constants = self._constants({node.name for node in graph.nodes if node.op == "placeholder"})
        self._tensors: dict[str, Any] = {}

    def _constants(self, inputs: set[str]) -> set[str]:
        varying = set(inputs)
        for step, node in zip(self.steps, self.nodes, strict=True):
            if varying.intersection(step.reads) or facts_of(node.target).is_random:
                varying.update(step.makes)
        return {*self.low} - varying

    def name_of(self, node: Any) -> str:
        """Return the name of a node's value among arguments."""
        if not _is_part(node):
            return str(node.name) if node.name in self.low else f"{node.name}__0"
        source, place = node.args
        return f"{source.name}__{place}" if f"{source.name}__{place}" in self.low else str(source.name)

    def _step(self, node: Any, sites: Mapping[str, Site], root: Path) -> ChainStep:
        reads = dict.fromkeys(self.name_of(each) for each in node.all_input_nodes)
        site = relative_site(sites.get(node.name, Site()), root)
        return ChainStep(facts_of(node.target).shown, site, tuple(reads), self.makes(node))

    def makes(self, node: Any) -> tuple[str, ...]:
        """Return the names of the values that a node makes."""
        if node.name in self.low:
            return (str(node.name),)
        parts = [name for name in self.low if name.startswith(f"{node.name}__")]
        return tuple(sorted(parts, key=lambda name: int(name.rpartition("__")[2])))

    def widen(self, value: Any) -> Any:
        """Return an array in float64 or complex128; integers and truth values as they are."""
        array = np.asarray(value)
        if array.dtype.kind in "biu":
            return array
        return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)

    def compute(self, place: int, wide: Mapping[str, Any]) -> list[Any]:
        """Return the results of an operation on float64 values, with the random draws of the run."""
        node = self.nodes[place]
        facts, func = facts_of(node.target), node.target
        names = [self.name_of(each) for each in node.all_input_nodes]
        given = {id(self._tensor(name)): torch.from_numpy(np.array(wide[name], order="C")) for name in names}
        args, kwargs = map_arg((node.args, node.kwargs), lambda each: self._tensor(self.name_of(each)))
        makes = self.makes(node)
        if facts.creates or facts.draws(args, kwargs):
            return [self.widen(self.low[name]) for name in makes]
        low = [self._tensor(name) for name in makes]
        found = compute_exact(func, facts, args, kwargs, given, low[0] if makes == (node.name,) else tuple(low))
        if found.reason:
            raise NotImplementedError(found.reason)
        parts = found.result if isinstance(found.result, tuple | list) else [found.result]
        named = dict(zip(_names_of(node, len(parts)), parts, strict=True))
        return [self.widen(tensor_to_array(named[name].detach(), name)) for name in makes]

    def _tensor(self, name: str) -> Any:
        if name not in self._tensors:
            self._tensors[name] = array_to_tensor(self.low[name], name)
        return self._tensors[name]


def record_torch(
    case: Case, project: Path, observed: Callable[[Observer], Outputs], fails: Callable[[Any], bool]
) -> RecordedChain:
    """Record the operations of a case's function or module. `observed` runs it with an observer.

    `fails` says whether outputs break the case's bounds. Raises UserError: irreducible, for a call that torch.fx cannot
    record, and for one in float64; and those of the run.
    """
    recorder = _GraphRecorder()
    found = observed(recorder)
    if recorder.problem or not fails(found.arrays):
        reason = recorder.problem or "its graph passes"
        raise UserError("irreducible", f"expected a call that torch.fx records but {case.id} gives {reason}")
    chain = TorchChain(recorder, project)
    if any(np.asarray(value).dtype in (np.float64, np.complex128) for value in chain.low.values()):
        message = f"expected numbers that are narrower than float64 but {case.id} computes in it"
        raise UserError("irreducible", message)
    return RecordedChain(chain, partial(_kept, chain, recorder.graph, case))


def _kept(chain: TorchChain, graph: Any, case: Case, exact: ExactRun, places: Sequence[int], name: str) -> Any:
    boundary = boundary_of(chain, places)
    inputs = [each for each in boundary.inputs if each not in chain.constants]
    weights = {each: chain.low[each] for each in boundary.inputs if each in chain.constants}
    text = _module_text(chain, places, inputs, boundary.outputs, case.id)
    files = {f"{name}.py": text.encode()}
    options = {key: value for key, value in case.subject.spec.items() if key in _SETTINGS}
    if weights:
        stream = io.BytesIO()
        write_safetensors(stream, weights)
        files[f"{name}/weights.safetensors"] = stream.getvalue()
        options["weights"] = f"{name}/weights.safetensors"
    return KeptComputation(
        subject={"torch": f"{name}:Reduced", **options},
        oracle=None,
        inputs={each: chain.low[each] for each in inputs},
        outputs={each: chain.low[each] for each in boundary.outputs},
        exact=exact.own_exact(boundary.outputs, places),
        files=files,
    )


def _module_text(
    chain: TorchChain, places: Sequence[int], inputs: Sequence[str], outputs: Sequence[str], case: str
) -> str:
    """Return the code of a module that runs the operations at some places."""
    graph, made = torch.fx.Graph(), dict[str, Any]()
    for name in inputs:
        made[name] = graph.placeholder(name)
    constants: dict[str, Any] = {}

    def value_of(node: Any) -> Any:
        name = chain.name_of(node)
        if name not in made:
            made[name] = constants[name] = graph.get_attr(name)
        return made[name]

    for place in sorted(places):
        node, makes = chain.nodes[place], chain.steps[place].makes
        args, kwargs = map_arg((node.args, node.kwargs), value_of)
        found = graph.call_function(node.target, args, kwargs)
        is_single = makes == (node.name,)
        made |= {
            name: found if is_single else graph.call_function(operator.getitem, (found, _part(name))) for name in makes
        }
    graph.output({name: made[name] for name in outputs})
    graph.eliminate_dead_code()
    code = graph.python_code("self")
    lines = [
        f'"""Operations of {case} that precreg reduce kept. Stored tensors are the values at their boundary."""',
        "",
    ]
    # torch.fx drops each value after its last use, which nobody reads.
    source = re.sub(r";  (?:\w+ = )+None", "", code.src)
    lines += [*_imports(source), "", "", "class Reduced(torch.nn.Module):", "    def __init__(self):"]
    lines += ["        super().__init__()", *(f"        {_buffer(name, chain.low[name])}" for name in constants), ""]
    lines += [f"    {line}".rstrip() for line in source.strip().splitlines()]
    return "".join(f"{line}\n" for line in lines)


def _part(name: str) -> int:
    return int(name.rpartition("__")[2])


def _buffer(name: str, value: Any) -> str:
    tensor = array_to_tensor(value, name)
    return f'self.register_buffer("{name}", torch.empty({list(tensor.shape)}, dtype={tensor.dtype}))'


def _imports(source: str) -> Iterator[str]:
    numbers = [name for name in ("inf", "nan") if re.search(rf"\b{name}\b", source)]
    if numbers:
        yield f"from math import {', '.join(numbers)}"
        yield ""
    yield "import torch"
    if re.search(r"\bdevice\(", source):
        yield "from torch import device"
