# The names that other rooms may use. They are imported from their modules at their first use.
from .html import read_comparison_record as read_comparison_record
from .html import render_comparison_html as render_comparison_html
from .pairing import ArrayPlace as ArrayPlace
from .pairing import ArraySide as ArraySide
from .pairing import RawFormat as RawFormat
from .pairing import pair_arrays as pair_arrays
from .pairing import read_side as read_side
from .pairing import unknown_array as unknown_array
from .session import ComparisonWork as ComparisonWork
from .session import finish_comparison as finish_comparison
from .session import plan_comparison as plan_comparison
from .sharing import MIN_PAIRS_TO_SHARE as MIN_PAIRS_TO_SHARE
from .sharing import compare_pairs as compare_pairs
from .terminal import render_comparison_terminal as render_comparison_terminal
