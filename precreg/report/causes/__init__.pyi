# The names that other rooms may use. They are imported from their modules at their first use.
from .diagnosis import brief_diagnosis as brief_diagnosis
from .diagnosis import cause_line as cause_line
from .diagnosis import cause_location as cause_location
from .diagnosis import causes_of as causes_of
from .diagnosis import change_command as change_command
from .diagnosis import describe_diagnosis as describe_diagnosis
from .diagnosis import describe_run_diagnoses as describe_run_diagnoses
from .diagnosis import diagnoses_of as diagnoses_of
from .diagnosis import diagnosis_rows as diagnosis_rows
from .diagnosis import is_undecided as is_undecided
from .rewrite_words import cause_family as cause_family
from .rewrite_words import cause_phrase as cause_phrase
from .rewrite_words import format_figure as format_figure
from .rewrite_words import format_figures as format_figures
