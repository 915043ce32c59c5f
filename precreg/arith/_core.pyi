from typing import Any

instruction_set: str
interface: int

def round(values: Any, results: Any, itemsize: int, format: bytes, rounding: int, seed: int, start: int, /) -> None: ...
