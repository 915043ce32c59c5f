"""Which settings of torch does a call have, and how are those before it put back?"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch


class _Switch(NamedTuple):
    """One setting of torch's process: the functions that get and put it, and its value for a call without options."""

    get: Callable[[], Any]
    put: Callable[[Any], object]
    usual: Any


def _attribute(owner: Any, name: str, usual: Any) -> _Switch:
    return _Switch(lambda: getattr(owner, name), lambda value: setattr(owner, name, value), usual)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


# Values of a fresh process (torch 2.13). So neither another case nor the import of the subject's module decides them.
_SWITCHES = (
    _Switch(torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    _Switch(torch.is_grad_enabled, torch.set_grad_enabled, True),
    _Switch(
        _deterministic, lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]), (False, False)
    ),
    _attribute(torch.utils.deterministic, "fill_uninitialized_memory", True),
    _Switch(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"),
    _Switch(torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly, False),
    _attribute(torch.backends.cudnn, "allow_tf32", True),
    _attribute(torch.backends.cudnn, "benchmark", False),
    _attribute(torch.backends.cudnn, "deterministic", False),
    _attribute(torch.backends.cudnn, "enabled", True),
    _attribute(torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", True),
    _attribute(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", True),
    _Switch(torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp, True),
    _Switch(torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp, True),
    _Switch(torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp, True),
    _attribute(torch.backends.mkldnn, "enabled", True),
)
# torch refuses to run cuBLAS deterministically without it, and reads it at each call.
_CUBLAS = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def settings_of(spec: dict[str, Any]) -> Iterator[None]:
    """Compute with the usual settings of torch and of a specification inside, and put all back afterwards."""
    values = [switch.get() for switch in _SWITCHES]
    threads, device, states = torch.get_num_threads(), torch.get_default_device(), _random_states()
    try:
        if device != torch.device("cpu"):
            torch.set_default_device(None)
        for switch in _SWITCHES:
            _put(switch, switch.usual)
        _apply(spec)
        yield
    finally:
        for switch, value in zip(_SWITCHES, values, strict=True):
            _put(switch, value)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.get_default_device() != device:
            torch.set_default_device(device if device != torch.device("cpu") else None)
        _restore_random(states)


def _put(switch: _Switch, value: Any) -> None:
    if switch.get() != value:
        switch.put(value)


def _apply(spec: dict[str, Any]) -> None:
    if torch.get_num_threads() != (threads := spec.get("threads", 1)):
        torch.set_num_threads(threads)
    if spec.get("deterministic"):
        os.environ.setdefault(*_CUBLAS)
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.deterministic = True
    if "matmul_precision" in spec:
        torch.set_float32_matmul_precision(spec["matmul_precision"])
    if "tf32" in spec:
        torch.set_float32_matmul_precision("high" if spec["tf32"] else "highest")
        torch.backends.cudnn.allow_tf32 = spec["tf32"]


def seed_as_specified(spec: dict[str, Any], seed: int | None = None) -> None:
    """Seed the generators of torch, Python and numpy, which modules use for weights.

    The seed comes from the specification, or is the given one.
    """
    seed = spec.get("seed", 0) if seed is None else seed
    if "on" in spec or torch.cuda.is_initialized():
        torch.manual_seed(seed)
    else:
        # A tenth of a call's time: manual_seed notes for each absent accelerator who called it.
        torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _random_states() -> tuple[Any, ...]:
    on_cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    return torch.get_rng_state(), random.getstate(), np.random.get_state(), on_cuda


def _restore_random(states: tuple[Any, ...]) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])
    if states[3] is not None:
        torch.cuda.set_rng_state_all(states[3])
