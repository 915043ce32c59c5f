# The names that other rooms may use. They are imported from their modules at their first use.
from .comparison import conclude_divergence as conclude_divergence
from .comparison import measure_pair_of_runs as measure_pair_of_runs
from .comparison import measure_twin as measure_twin
from .perturbation import Twin as Twin
from .revision import recorded_at_commit as recorded_at_commit
from .runs import TrainingSource as TrainingSource
from .runs import run_training as run_training
from .session import DivergenceRequest as DivergenceRequest
from .session import compare_trainings as compare_trainings
from .session import record_run as record_run
from .trajectory import StoredTrajectory as StoredTrajectory
from .trajectory import read_trajectory as read_trajectory
from .trajectory import record_trajectory as record_trajectory
from .verdict import NOISE_FACTOR as NOISE_FACTOR
