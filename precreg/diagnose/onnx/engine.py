"""How does an ONNX model run with its nodes altered?

A rewrite edits a copy of the graph. ONNX Runtime loads the copy with the options of the subject, so its optimizations
are those of the subject, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os.path import normpath, realpath
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from precreg.diagnose.locations import ErrorLocation
from precreg.diagnose.onnx.changes import changed_attributes, changed_weights, loaded_model, model_nodes
from precreg.diagnose.onnx.edits import GraphEdit
from precreg.diagnose.onnx.places import OnnxPlace, PlacedModel, placed_model
from precreg.diagnose.onnx.rewrites import attribute_hypothesis, node_hypotheses, shared_hypotheses, weights_hypothesis
from precreg.diagnose.places import ComputedPlace, PlaceKey
from precreg.diagnose.rewrites import Hypothesis, Params
from precreg.errors import UserError
from precreg.run import Arrays
from precreg.subject import Call, SurroundingsRestored
from precreg.subject.onnx import (
    ModelFile,
    bind_inputs,
    chosen_outputs,
    deployed_model,
    make_session,
    name_values,
    note_model_use,
    run_feeds,
)


class OnnxRewriting:
    """Run the model of a specification with rewrites of its nodes."""

    def __init__(self, spec: Mapping[str, Any], call: Call) -> None:
        self._spec, self._call = dict(spec), call
        self.path = Path(realpath(normpath(call.directory / spec["model"])))
        self._file: ModelFile | None = None
        self._inner: list[str] = []
        self._placed: PlacedModel | None = None

    def record(self, inputs: Arrays, params: Params) -> tuple[Arrays, Mapping[PlaceKey, ComputedPlace]]:
        """Return the outputs and the places."""
        file = self._load()
        numbers = {name: number for number, node in enumerate(model_nodes(self.path), 1) for name in node.output[:1]}
        with SurroundingsRestored():
            self._placed = placed_model(file, str(self.path), numbers, inputs)
        return self.run(inputs, params, ()), self._placed.places

    def _load(self) -> ModelFile:
        """Return the model, which the first call reads."""
        if self._file is None:
            note_model_use()
            with SurroundingsRestored():
                self._file, self._inner = deployed_model(self._spec, self._call)
        return self._file

    def run(self, inputs: Arrays, params: Params, hypotheses: Sequence[Hypothesis]) -> Arrays:
        """Return the outputs of the altered model. Without hypotheses it needs no record."""
        alter = [each.alter for each in hypotheses if each.alter is not None]
        file = self._load()
        if alter:
            assert self._placed is not None
            edit = GraphEdit(self._placed.model, self._placed.kinds)
            for each in alter:
                each(edit)
            file = file._replace(content=edit.model.SerializeToString())
        with SurroundingsRestored():
            session = make_session(file, self._spec)
            feeds = bind_inputs(session, replace(self._call, inputs=inputs, params=params), file.name)
            every = [output.name for output in session.get_outputs()]
            names = chosen_outputs(self._spec, every, self._inner, file.name)
            return name_values(run_feeds(session, feeds, names).values)

    def hypotheses(
        self, places: Iterable[ComputedPlace], inputs: Arrays, locations: Sequence[ErrorLocation]
    ) -> list[Hypothesis]:
        """Return every rewrite of every place."""
        known = [place for place in places if isinstance(place, OnnxPlace)]
        nodes = {name: place.node for place in known for name in place.node.output}
        alone = [each for place in known for each in node_hypotheses(place, nodes)]
        return [*alone, *shared_hypotheses(known)]

    def of_changes(self, present: Path) -> list[Hypothesis]:
        """Return one hypothesis for each weight and attribute that another version of the model file changed."""
        assert self._placed is not None
        try:
            before, now = loaded_model(self.path), loaded_model(present)
        except (OSError, UserError, ValueError):
            return []
        by_value = {place.value: place for place in self._placed.places.values()}
        readers = {name: place for place in reversed(by_value.values()) for name in place.operands}
        found = [
            weights_hypothesis(readers[each.name], each)
            for each in changed_weights(before, now)
            if each.name in readers
        ]
        return found + [
            attribute_hypothesis(by_value[each.value], each)
            for each in changed_attributes(before, now)
            if each.value in by_value
        ]
