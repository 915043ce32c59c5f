# The names that other rooms may use. They are imported from their modules at their first use.
from .guesses import Guess as Guess
from .guesses import guess_calls as guess_calls
from .guesses import guess_constructor as guess_constructor
from .guesses import unguessable as unguessable
from .writing import StarterSuite as StarterSuite
from .writing import first_bounds as first_bounds
from .writing import render_suite as render_suite
from .writing import rounding_unit as rounding_unit
