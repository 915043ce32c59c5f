# The names that other rooms may use. They are imported from their modules at their first use.
from .case_run import array_digests as array_digests
from .case_run import combine_digests as combine_digests
from .case_run import compare_with_oracle as compare_with_oracle
from .computation import call_model as call_model
from .computation import find_model as find_model
from .pipeline import IN_PROCESS as IN_PROCESS
from .pipeline import Plan as Plan
from .pipeline import run_and_judge as run_and_judge
from .pipeline import run_cases as run_cases
from .rerun import NOT_RERUN as NOT_RERUN
from .rerun import rerun_changes as rerun_changes
from .session import CaseJudge as CaseJudge
from .session import RunOutputs as RunOutputs
from .session import RunRequest as RunRequest
from .session import Session as Session
from .session import run_session as run_session
from .workers import start_fork_server as start_fork_server
