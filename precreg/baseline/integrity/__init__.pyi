# The names that other rooms may use. They are imported from their modules at their first use.
from .allowances import NewAllowance as NewAllowance
from .allowances import add_allowances as add_allowances
from .allowances import prune_allowances as prune_allowances
from .allowances import render_allowance as render_allowance
from .base import AcceptanceCriteria as AcceptanceCriteria
from .base import acceptance_criteria as acceptance_criteria
from .code import ProjectCode as ProjectCode
from .sides import ALLOWABLE_KINDS as ALLOWABLE_KINDS
from .sides import IntegritySides as IntegritySides
from .sides import add_allowance_reasons as add_allowance_reasons
from .sides import read_allowances as read_allowances
