# The names that other rooms may use. They are imported from their modules at their first use.
from .judge import DriftContext as DriftContext
from .judge import judge_metric as judge_metric
from .monitor import find_anchor as find_anchor
from .monitor import judge_series as judge_series
from .record import DRIFT_SCHEMA as DRIFT_SCHEMA
from .record import Anchor as Anchor
from .record import DriftChange as DriftChange
from .record import DriftRecord as DriftRecord
from .record import DriftReference as DriftReference
from .record import DriftSettings as DriftSettings
from .record import DriftState as DriftState
from .record import MetricDrift as MetricDrift
from .record import OutputDrift as OutputDrift
from .record import Worsening as Worsening
from .record import drift_exit_code as drift_exit_code
