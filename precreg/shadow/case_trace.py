"""How is one seed of a case traced?"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from precreg.run import arithmetic_of, draw_inputs, run_subject_once, suite_folder
from precreg.shadow.recorder import Recorder
from precreg.shadow.tracer import Tracer
from precreg.subject import Call
from precreg.types import Case, Trace


@np.errstate(all="ignore")
def trace_case(case: Case, project: Path, seed: int, recorder: Recorder) -> Trace:
    """Trace the subject of a case on the inputs of one seed. Raises as the subject does."""
    directory = suite_folder(project, case.directory)
    inputs = draw_inputs(case, seed, directory, project)
    tracer = Tracer(recorder)
    run_subject_once(case, Call(inputs, case.params, directory, project, arithmetic_of(case, project), tracer))
    return Trace(
        case=case.id,
        definition=case.definition,
        seed=seed,
        dtype=tracer.outputs[0].dtype,
        operations=tuple(recorder.operations),
        events=recorder.events,
        outputs=tracer.outputs,
    )
