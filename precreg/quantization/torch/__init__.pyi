# The names that other rooms may use. They are imported from their modules at their first use.
from .simulated import simulate_module as simulate_module
