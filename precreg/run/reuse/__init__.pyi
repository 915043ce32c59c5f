# The names that other rooms may use. They are imported from their modules at their first use.
from .observation import OtherProcess as OtherProcess
from .observation import present_observation as present_observation
from .outcomes import OutcomeCache as OutcomeCache
from .store import OUTCOMES_FILE as OUTCOMES_FILE
from .task import ObservedTask as ObservedTask
