# The names that other rooms may use. They are imported from their modules at their first use.
from .loop import train_recipe as train_recipe
from .observer import DEFAULT_ELEMENTS as DEFAULT_ELEMENTS
from .observer import Observer as Observer
from .observer import start_observer as start_observer
