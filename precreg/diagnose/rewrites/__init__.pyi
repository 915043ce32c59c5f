# The names that other rooms may use. They are imported from their modules at their first use.
from .alterations import tail_of as tail_of
from .constants import other_numbers as other_numbers
from .fitting import fit_number as fit_number
from .hypothesis import Hypothesis as Hypothesis
from .hypothesis import Params as Params
from .operations import BLOCKS as BLOCKS
from .parts import index_hypotheses as index_hypotheses
from .parts import located_hypotheses as located_hypotheses
from .suggestions import suggested_rewrites as suggested_rewrites
from .table import all_hypotheses as all_hypotheses
from .table import group_hypotheses as group_hypotheses
from .table import place_hypotheses as place_hypotheses
