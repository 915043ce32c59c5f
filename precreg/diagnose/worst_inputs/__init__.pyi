# The names that other rooms may use. They are imported from their modules at their first use.
from .domain import parse_ranges as parse_ranges
from .search import FoundInputs as FoundInputs
from .search import SearchSettings as SearchSettings
from .search import search_case as search_case
from .suite_file import require_suite_path as require_suite_path
from .suite_file import write_worst_suite as write_worst_suite
