# The names that other rooms may use. They are imported from their modules at their first use.
from .revision import recorded_at_commit as recorded_at_commit
from .session import DivergenceRequest as DivergenceRequest
from .session import compare_trainings as compare_trainings
from .session import record_run as record_run
from .trajectory import StoredTrajectory as StoredTrajectory
from .trajectory import TrainingSource as TrainingSource
from .trajectory import read_trajectory as read_trajectory
from .verdict import MIN_GROWTH_STEPS as MIN_GROWTH_STEPS
from .verdict import NOISE_FACTOR as NOISE_FACTOR
