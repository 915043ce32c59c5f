# The names that other rooms may use. They are imported from their modules at their first use.
from .engine import TorchRewriting as TorchRewriting
from .engine import operator_hypotheses as operator_hypotheses
from .engine import operators_rewritten as operators_rewritten
