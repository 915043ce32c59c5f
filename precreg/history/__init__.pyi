# The names that other rooms may use. They are imported from their modules at their first use.
from .add import add_run as add_run
from .add import new_run as new_run
from .runs import HistoryRun as HistoryRun
from .runs import changed_facts as changed_facts
from .series import HistoryPoint as HistoryPoint
from .series import HistorySeries as HistorySeries
from .states import CaseState as CaseState
from .states import case_states as case_states
from .states import decode_state as decode_state
from .store import History as History
from .store import open_history as open_history
