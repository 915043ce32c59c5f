# The names that other rooms may use. They are imported from their modules at their first use.
from .accepted_version import find_accepted_commit as find_accepted_commit
from .accepted_version import judge_changed_cases as judge_changed_cases
from .escalation import Announce as Announce
from .escalation import DiagnosisAnnouncement as DiagnosisAnnouncement
from .escalation import OracleAnnouncement as OracleAnnouncement
from .other_version import OtherVersion as OtherVersion
from .other_version import checked_out_version as checked_out_version
from .other_version import other_commit as other_commit
from .pair import pair_budget as pair_budget
from .pair import paired_results as paired_results
from .seeds import PackedArray as PackedArray
from .seeds import pack_array as pack_array
from .seeds import unpack_array as unpack_array
