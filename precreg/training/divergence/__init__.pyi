# The names that other rooms may use. They are imported from their modules at their first use.
from .comparison import conclude_divergence as conclude_divergence
from .comparison import measure_pair_of_runs as measure_pair_of_runs
from .comparison import measure_twin as measure_twin
from .perturbation import Twin as Twin
from .runs import TrainingSource as TrainingSource
from .runs import run_training as run_training
from .trajectory import read_trajectory as read_trajectory
from .trajectory import record_trajectory as record_trajectory
