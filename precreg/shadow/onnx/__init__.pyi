# The names that other rooms may use. They are imported from their modules at their first use.
from .trace import OnnxTrace as OnnxTrace
from .trace import trace_onnx_call as trace_onnx_call
from .trace import trace_onnx_test as trace_onnx_test
