# The names that other rooms may use. They are imported from their modules at their first use.
from .exact import ExactNodes as ExactNodes
from .program import Program as Program
from .program import session_values as session_values
from .sessions import sessions_noted as sessions_noted
from .trace import OnnxTrace as OnnxTrace
from .trace import trace_onnx_call as trace_onnx_call
from .trace import trace_onnx_test as trace_onnx_test
from .values import is_real as is_real
from .values import to_wide as to_wide
