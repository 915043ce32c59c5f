"""Is the hardware of a subject there, how does precreg wait for it, and which facts name it?"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from precreg.subject.surroundings import unavailable
from precreg.subject.torch.specification import HARDWARE


def find_device(name: str) -> Any:
    """Return the torch.device of a name such as "cuda:1". Raises CaseFailed (unavailable) if it is absent."""
    kind, _, index = name.partition(":")
    if kind == "cpu":
        return torch.device("cpu")
    package = HARDWARE[kind]
    if package is not None:
        import_module(package)
    backend = getattr(torch, kind, None)
    if backend is None or not _is_available(kind, backend):
        built = f"torch {torch.__version__}"
        raise unavailable(f"needs {name}, but {built} finds none here: use on: cpu, or run the case where there is one")
    count = backend.device_count()
    if index and int(index) >= count:
        raise unavailable(f"needs {name}, but torch finds {count} of {kind}: use on: {kind}:{count - 1}")
    return torch.device(name)


def _is_available(kind: str, backend: Any) -> bool:
    return bool(torch.backends.mps.is_available() if kind == "mps" else backend.is_available())


def wait_for(device: Any) -> None:
    """Wait until the hardware has finished all work: calls return before it."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def describe_hardware(device: Any) -> dict[str, str]:
    """Return the versions and the hardware that compute, and the switches that decide their numbers."""
    facts = {"torch": str(torch.__version__), "device": "cpu", "torch_threads": str(torch.get_num_threads())}
    if torch.are_deterministic_algorithms_enabled():
        facts["deterministic"] = "true"
    if (precision := torch.get_float32_matmul_precision()) != "highest":
        facts["matmul_precision"] = precision
    return facts if device.type == "cpu" else facts | _accelerator_facts(device)


def _accelerator_facts(device: Any) -> dict[str, str]:
    backend = getattr(torch, device.type)
    name = backend.get_device_name(device) if hasattr(backend, "get_device_name") else device.type
    facts = {"device": str(name), "accelerator": f"{device.type} {name}"}
    # cuda and hip are torch's, cann is set by torch_npu, and mlu by torch_mlu.
    for version in ("cuda", "hip", "cann", "mlu"):
        if found := getattr(torch.version, version, None):
            facts[version] = str(found)
    if device.type == "cuda":
        facts |= {
            "cudnn": str(torch.backends.cudnn.version()),
            "cudnn_tf32": str(torch.backends.cudnn.allow_tf32).lower(),
            "matmul_tf32": str(torch.backends.cuda.matmul.allow_tf32).lower(),
        }
        if hasattr(torch._C, "_cuda_getDriverVersion"):
            facts["cuda_driver"] = str(torch._C._cuda_getDriverVersion())
    return facts
