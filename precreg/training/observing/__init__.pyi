# The names that other rooms may use. They are imported from their modules at their first use.
from .loop import check_recipe as check_recipe
from .loop import train_recipe as train_recipe
from .observer import TrainingObserver as TrainingObserver
from .observer import start_observer as start_observer
