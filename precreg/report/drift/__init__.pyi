# The names that other rooms may use. They are imported from their modules at their first use.
from .hindsight import HINDSIGHT_DAY as HINDSIGHT_DAY
from .hindsight import describe_hindsight_change as describe_hindsight_change
