# The names that other rooms may use. They are imported from their modules at their first use.
from .base import AcceptanceCriteria as AcceptanceCriteria
from .base import acceptance_criteria as acceptance_criteria
from .code import ProjectCode as ProjectCode
from .sides import IntegritySides as IntegritySides
from .sides import add_allowance_reasons as add_allowance_reasons
