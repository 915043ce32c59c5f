# The names that other rooms may use. They are imported from their modules at their first use.
from .calls import CallStore as CallStore
from .calls import CapturedCall as CapturedCall
from .hook import captured_environment as captured_environment
from .live import Capture as Capture
from .live import require_free_suite as require_free_suite
from .writing import find_home as find_home
from .writing import write_suite as write_suite
