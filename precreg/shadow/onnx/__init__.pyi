# The names that other rooms may use. They are imported from their modules at their first use.
from .sessions import sessions_noted as sessions_noted
from .trace import OnnxTrace as OnnxTrace
from .trace import trace_onnx_call as trace_onnx_call
from .trace import trace_onnx_test as trace_onnx_test
