# The names that other rooms may use. They are imported from their modules at their first use.
from .session import ReduceSettings as ReduceSettings
from .session import reduce_case as reduce_case
