# The names that other rooms may use. They are imported from their modules at their first use.
from .draw import draw_input as draw_input
from .draw import has_last_bits as has_last_bits
from .draw import move_last_bits as move_last_bits
from .options import File as File
from .spec import ARGUMENTS_KEY as ARGUMENTS_KEY
from .spec import DISTRIBUTIONS as DISTRIBUTIONS
from .spec import FROM_KEY as FROM_KEY
from .spec import PICK_KEY as PICK_KEY
from .spec import PYTHON_KEY as PYTHON_KEY
from .spec import gather_arguments as gather_arguments
from .spec import is_drawn as is_drawn
from .spec import parse_input as parse_input
from .spec import resolve_pick as resolve_pick
from .structured import PythonInput as PythonInput
