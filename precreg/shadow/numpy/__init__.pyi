# The names that other rooms may use. They are imported from their modules at their first use.
from .calls import CallRecorder as CallRecorder
from .calls import RecordedCall as RecordedCall
from .calls import SpelledCall as SpelledCall
from .calls import ValueName as ValueName
from .engine import NumpyEngine as NumpyEngine
