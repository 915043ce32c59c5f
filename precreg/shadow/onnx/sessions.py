"""When does a traced program leave its trace for a session of ONNX Runtime of its own?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from precreg.shadow.recorder import Recorder
from precreg.shadow.site import user_site

_RUNS = ("run", "run_with_ort_values", "run_with_iobinding", "run_async")


@contextmanager
def sessions_noted(recorder: Recorder) -> Iterator[None]:
    """Note each run of a session inside the block as untraced: its results have no shadow."""
    runtime = sys.modules.get("onnxruntime")
    if runtime is None:
        yield
        return
    # The class that defines the methods; users subclass the other one.
    owner = next(each for each in runtime.InferenceSession.__mro__ if "run" in vars(each))
    usual = {name: vars(owner)[name] for name in _RUNS if name in vars(owner)}
    for name, method in usual.items():
        setattr(owner, name, _noted(method, recorder))
    try:
        yield
    finally:
        for name, method in usual.items():
            setattr(owner, name, method)


def _noted(method: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    def noted(session: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.note_event("untraced", "onnxruntime", user_site(depth=2))
        results = method(session, *args, **kwargs)
        for each in results if isinstance(results, list) else ():
            if isinstance(each, np.ndarray):
                recorder.note_foreign(each)
        return results

    return noted
