"""How does a diagnosis read?"""

from __future__ import annotations

from precreg.types import Diagnosis


def describe_diagnosis(diagnosis: Diagnosis) -> list[str]:
    """Return the lines that describe a diagnosis."""
    return [f"{diagnosis.case}: {diagnosis.status}"]
