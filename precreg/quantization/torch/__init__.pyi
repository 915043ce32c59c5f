# The names that other rooms may use. They are imported from their modules at their first use.
from .adaptive import AdaptivePrecision as AdaptivePrecision
from .batches import as_model_dtype as as_model_dtype
from .batches import read_batches as read_batches
from .batches import read_stored_batches as read_stored_batches
from .fake import is_fake_quantized as is_fake_quantized
from .fake import read_fake_quantized as read_fake_quantized
from .gradient import PROBES as PROBES
from .gradient import estimate_first_order as estimate_first_order
from .layers import run_quantized as run_quantized
from .simulated import own_copy as own_copy
from .simulated import simulate_module as simulate_module
from .steps import QuantizationObserver as QuantizationObserver
from .stored import is_quantized_module as is_quantized_module
from .stored import read_quantized_module as read_quantized_module
