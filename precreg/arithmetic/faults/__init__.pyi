# The names that other rooms may use. They are imported from their modules at their first use.
from .fault import ArithmeticLayer as ArithmeticLayer
from .fault import Fault as Fault
from .orders import RememberingLayer as RememberingLayer
from .planting import OperationRecorder as OperationRecorder
from .planting import alter_inputs as alter_inputs
from .planting import alter_params as alter_params
from .planting import plant_fault as plant_fault
from .random_rounding import RandomRounding as RandomRounding
from .results import truncate_bits as truncate_bits
from .table import FAULTS as FAULTS
from .table import HARMLESS_CHANGES as HARMLESS_CHANGES
from .table import fault_named as fault_named
