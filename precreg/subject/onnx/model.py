"""How does a case of the kind "onnx" run a model, and which arrays does it return?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from precreg.errors import UserError
from precreg.subject.call import Call, Outputs, check_outputs
from precreg.subject.onnx.graph import with_outputs
from precreg.subject.onnx.mixed import KEEP_IN, ROUND_NODES, with_mixed_nodes
from precreg.subject.onnx.outputs import chosen_outputs, name_values
from precreg.subject.onnx.session import (
    KeptObjects,
    ModelFile,
    bind_inputs,
    make_session,
    model_signature,
    note_model_use,
    read_model,
    run_feeds,
    runtime_message,
    session_facts,
)
from precreg.subject.surroundings import SurroundingsRestored

# A session holds the weights of its model, and the cases of a suite mostly share one.
_MAX_SESSIONS = 8
_sessions = KeptObjects(_MAX_SESSIONS)


class _Model(NamedTuple):
    """A session, the name of its model for messages, and the names of the outputs to return."""

    session: Any
    name: str
    outputs: list[str]


def run_model(spec: dict[str, Any], call: Call) -> Outputs:
    """Run the model of a specification on the inputs and params of a call, and time the run of the session.

    Raises CaseFailed (unavailable); UserError: bad-model, unsupported-model, bad-model-inputs, missing-file,
    outside-project, unknown-node, bad-outputs.
    """
    if "precision" in spec:
        # Late, because only references need the package onnx and its evaluator.
        from precreg.subject.onnx.reference import run_reference

        return run_reference(spec, call)
    note_model_use()
    model = _session_of(spec, call)
    feeds = bind_inputs(model.session, call, model.name)
    with SurroundingsRestored():
        try:
            found = run_feeds(model.session, feeds, model.outputs)
        except UserError:
            raise
        # The classes of ONNX Runtime's errors have no common base.
        except Exception as error:
            message = f"expected the model to compute but: {runtime_message(error)}"
            raise UserError("model-failed", message, file=model.name) from None
    facts = session_facts(model.session, spec)
    return check_outputs(Outputs(name_values(found.values), found.duration_s, facts))


def _session_of(spec: dict[str, Any], call: Call) -> _Model:
    key = (json.dumps(spec, sort_keys=True), str(call.project), model_signature(spec["model"], call.directory))
    kept: _Model | None = _sessions.find(key)
    if kept is None:
        with SurroundingsRestored():
            kept = _load(spec, call)
        _sessions.keep(key, kept)
    return kept


def _load(spec: dict[str, Any], call: Call) -> _Model:
    model, nodes = deployed_model(spec, call)
    session = make_session(model, spec)
    every = [output.name for output in session.get_outputs()]
    return _Model(session, model.name, chosen_outputs(spec, every, nodes, model.name))


def deployed_model(spec: Mapping[str, Any], call: Call) -> tuple[ModelFile, list[str]]:
    """Return the model that a specification runs, and the names of the inner tensors that it returns.

    Raises UserError: bad-model, missing-file, outside-project, unknown-node.
    """
    model, nodes = read_model(spec["model"], call.directory, call.project), list[str]()
    if "nodes" in spec:
        model, nodes = with_outputs(model, spec["nodes"])
    if KEEP_IN in spec or ROUND_NODES in spec:
        model = with_mixed_nodes(model, spec)
    return model, nodes
