# The names that other rooms may use. They are imported from their modules at their first use.
from .error_map import MonitorMetric as MonitorMetric
from .error_map import map_errors as map_errors
from .monitor import Monitor as Monitor
from .sampling import Hook as Hook
from .selection import require_watchable as require_watchable
from .selection import select_layers as select_layers
