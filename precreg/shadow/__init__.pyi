# The names that other rooms may use. They are imported from their modules at their first use.
from .alignment import SketchListener as SketchListener
from .case_trace import TraceSettings as TraceSettings
from .case_trace import trace_case as trace_case
from .ledger import FirstLoss as FirstLoss
from .ledger import TraceGroup as TraceGroup
from .ledger import coverage_of as coverage_of
from .ledger import find_first_loss as find_first_loss
from .ledger import group_by_module as group_by_module
from .ledger import group_by_site as group_by_site
from .ledger import only_output as only_output
from .ledger import rank_by_share as rank_by_share
from .ledger import unit_of as unit_of
from .other_trace import trace_against as trace_against
from .recorder import Detail as Detail
from .recorder import Recorder as Recorder
