# The names that other rooms may use. They are imported from their modules at their first use.
from .engine import TorchRewriting as TorchRewriting
