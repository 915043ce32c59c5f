# The names that other rooms may use. They are imported from their modules at their first use.
from .channel import MAX_MESSAGE_BYTES as MAX_MESSAGE_BYTES
from .channel import detach as detach
from .place import Deadline as Deadline
from .place import LocalPlace as LocalPlace
from .place import LocalPools as LocalPools
from .place import RunPlace as RunPlace
from .place import VersionPools as VersionPools
from .pool import WorkerPool as WorkerPool
from .processes import die_with_parent as die_with_parent
from .processes import kill_group as kill_group
from .server import start_fork_server as start_fork_server
from .worker import CaseRunner as CaseRunner
from .worker import CaseTask as CaseTask
from .worker import WorkerTask as WorkerTask
from .worker import imported_modules as imported_modules
from .worker import run_in_process as run_in_process
