from typing import Any

from precreg.measure.tally import MeasureRules

instruction_set: str
declarations: dict[str, str]

def measure(
    actual: Any, reference: Any, start: int, shape: tuple[int, ...], rules: MeasureRules, plan: bytes, tables: Any, /
) -> tuple[Any, ...]: ...
def sizes(
    keys: bytes, counts: bytes, largest: float, /
) -> tuple[tuple[float, ...], tuple[int, ...], float, list[int], list[int]]: ...
