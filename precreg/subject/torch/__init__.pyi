# The names that other rooms may use. They are imported from their modules at their first use.
from .computation import is_out_of_memory as is_out_of_memory
from .kept import keep_modules as keep_modules
from .layer_names import unknown_layer as unknown_layer
from .monitored import OWN_OUTPUT as OWN_OUTPUT
from .monitored import layer_outputs as layer_outputs
from .run import is_torch_module as is_torch_module
from .run import run_torch as run_torch
from .run import run_torch_layers as run_torch_layers
from .run import weights_by_module as weights_by_module
from .settings import settings_of as settings_of
from .specification import NARROWER as NARROWER
from .specification import OWN_SUFFIX as OWN_SUFFIX
from .widening import widen_module as widen_module
from .widening import widened as widened
