# The names that other rooms may use. They are imported from their modules at their first use.
from .add import add_run as add_run
from .add import new_run as new_run
from .series import CaseState as CaseState
from .series import HistoryPoint as HistoryPoint
from .series import HistoryRun as HistoryRun
from .series import HistorySeries as HistorySeries
from .series import case_states as case_states
from .series import changed_facts as changed_facts
from .series import decode_state as decode_state
from .store import History as History
from .store import open_history as open_history
