from typing import Any

instruction_set: str
interface: int

def round(values: Any, results: Any, itemsize: int, format: bytes, rounding: int, seed: int, start: int, /) -> None: ...
def add_up(
    a: Any,
    t: Any,
    c: Any,
    itemsize: int,
    shape: tuple[int, int, int, int, bool, bool],
    plan: bytes,
    seed: int,
    /,
) -> None: ...
def compute(x: Any, y: Any, z: Any, results: Any, itemsize: int, task: bytes, seed: int, start: int, /) -> None: ...
