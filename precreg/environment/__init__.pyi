# The names that other rooms may use. They are imported from their modules at their first use.
from .accelerators import find_accelerators as find_accelerators
from .accelerators import with_accelerators as with_accelerators
from .machine import LABEL_VARIABLE as LABEL_VARIABLE
from .machine import count_processors as count_processors
from .machine import detect_environment as detect_environment
from .machine import environment_chain as environment_chain
from .machine import former_descriptions as former_descriptions
from .machine import in_ci as in_ci
from .machine import limit_blas_threads as limit_blas_threads
from .machine import merge_request_base as merge_request_base
from .machine import on_default_branch as on_default_branch
from .machine import project_name as project_name
from .machine import source_links as source_links
from .memory import usable_memory as usable_memory
