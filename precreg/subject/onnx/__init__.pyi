# The names that other rooms may use. They are imported from their modules at their first use.
from .export import ONNX_SUFFIX as ONNX_SUFFIX
from .export import export_nodes as export_nodes
from .graph import ordered_tensor_names as ordered_tensor_names
