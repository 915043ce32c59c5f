# The names that other rooms may use. They are imported from their modules at their first use.
from .judgement import SearchBudget as SearchBudget
from .session import SearchRequest as SearchRequest
from .session import bisect_commits as bisect_commits
from .session import bisect_packages as bisect_packages
from .session import bisect_settings as bisect_settings
from .session import judge_working_tree as judge_working_tree
