from typing import Any

instruction_set: str
declarations: dict[str, str]

def measure(
    actual: Any,
    reference: Any,
    start: int,
    shape: tuple[int, ...],
    rtol: float,
    atol: float,
    worst: int,
    plan: bytes,
    tables: bytes,
    /,
) -> object: ...
def read(found: object, /) -> tuple[Any, ...]: ...
def describe(
    found: object, figures: tuple[str, ...], counts: tuple[str, ...], places: tuple[str, ...], /
) -> tuple[Any, ...] | None: ...
def sizes(
    keys: bytes, counts: bytes, largest: float, /
) -> tuple[tuple[float, ...], tuple[int, ...], float, list[int], list[int]]: ...
def add_shadows(
    actual: Any, exact: Any, own: Any, errors: Any, state: Any, columns: int, smallest_normal: float, ends_row: bool, /
) -> None: ...
def compute_shadows(
    operation: int,
    low_x: Any,
    exact_x: Any,
    repeated_x: int,
    low_y: Any,
    exact_y: Any,
    repeated_y: int,
    actual: Any,
    exact: Any,
    own: Any,
    errors: Any,
    state: Any,
    columns: int,
    smallest_normal: float,
    has_own: bool,
    /,
) -> None: ...
