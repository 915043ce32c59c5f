# The names that other rooms may use. They are imported from their modules at their first use.
from .engine import TorchEngine as TorchEngine
from .exits import Exits as Exits
from .places import OperationPlaces as OperationPlaces
from .places import compiled_region as compiled_region
from .rules import compute_exact as compute_exact
from .schema import facts_of as facts_of
from .tape import flat_leaves as flat_leaves
from .twins import Twins as Twins
from .twins import is_shadowed as is_shadowed
from .twins import storage_key as storage_key
from .twins import tensors_in as tensors_in
from .twins import twin_dtype as twin_dtype
from .twins import upcast as upcast
