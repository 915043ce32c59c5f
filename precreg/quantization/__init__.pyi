# The names that other rooms may use. They are imported from their modules at their first use.
from .arrays import measure_array as measure_array
from .codes import make_quantizer as make_quantizer
from .model import measure_model as measure_model
