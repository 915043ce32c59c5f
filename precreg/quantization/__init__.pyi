# The names that other rooms may use. They are imported from their modules at their first use.
from .adaptation import adapt as adapt
from .arrays import quantize_array as quantize_array
from .codes import make_quantizer as make_quantizer
from .graph_session import GivenGraph as GivenGraph
from .graph_session import quantize_graph as quantize_graph
from .proposal import BitBudget as BitBudget
from .proposal import make_budget as make_budget
from .sensitivity import spearman as spearman
from .session import QuantizationOptions as QuantizationOptions
from .session import quantize_arrays as quantize_arrays
from .session import quantize_module as quantize_module
from .session import read_given_model as read_given_model
from .subject import options_of as options_of
from .user_code import call_seeded as call_seeded
from .user_code import require_onnx as require_onnx
from .user_code import require_torch as require_torch
