# The names that other rooms may use. They are imported from their modules at their first use.
from .array import Arithmetic as Arithmetic
from .array import NumpyArithmetic as NumpyArithmetic
from .array import WatchedArithmetic as WatchedArithmetic
from .array import is_floating as is_floating
from .array import simulate_array as simulate_array
from .computation import DeviceArithmetic as DeviceArithmetic
from .computation import cast_through_device as cast_through_device
from .device import device_named as device_named
from .device import device_names as device_names
from .device import device_table_paths as device_table_paths
from .device import own_device as own_device
from .elementwise import quarter_turns as quarter_turns
from .reductions import PRODUCTS as PRODUCTS
from .reductions import Products as Products
from .reductions import flatten_reduced_axes as flatten_reduced_axes
from .reductions import reduced_shape as reduced_shape
from .reductions import reduction_axes as reduction_axes
