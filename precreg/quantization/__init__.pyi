# The names that other rooms may use. They are imported from their modules at their first use.
from .adaptation import adapt as adapt
from .arrays import measure_array as measure_array
from .codes import make_quantizer as make_quantizer
from .session import QuantizationOptions as QuantizationOptions
from .session import quantize_arrays as quantize_arrays
from .session import quantize_module as quantize_module
from .session import read_given_model as read_given_model
