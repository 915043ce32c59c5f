# The names that other rooms may use. They are imported from their modules at their first use.
from .fitting import fit_number as fit_number
from .hypothesis import Hypothesis as Hypothesis
from .hypothesis import layered as layered
from .table import all_hypotheses as all_hypotheses
