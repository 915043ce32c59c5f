"""Which names does a package need that brings a kind of subject (docs/subjects.md)?"""

from precreg.errors import UserError
from precreg.subject import Call, CaseFailed, Dependencies, Kind, Outputs, SpecPlace, name_outputs, unavailable

__all__ = [
    "Call",
    "CaseFailed",
    "Dependencies",
    "Kind",
    "Outputs",
    "SpecPlace",
    "UserError",
    "name_outputs",
    "unavailable",
]
