# The names that other rooms may use. They are imported from their modules at their first use.
from .case_diagnosis import diagnose_case as diagnose_case
from .precision.bisection import PrecisionRequest as PrecisionRequest
from .precision.bisection import bisect_precision as bisect_precision
from .precision.smallest_set import find_smallest_set as find_smallest_set
from .precision.trials import LimitOfMetric as LimitOfMetric
