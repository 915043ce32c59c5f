from typing import Any

instruction_set: str
interface: int

def measure(
    actual: Any,
    reference: Any,
    plan: bytes,
    tables: Any,
    start: int,
    shape: tuple[int, ...],
    rtol: float,
    atol: float,
    worst: int,
    /,
) -> tuple[Any, ...]: ...
def sizes(
    keys: bytes, counts: bytes, largest: float, /
) -> tuple[tuple[float, ...], tuple[int, ...], float, list[int], list[int]]: ...
