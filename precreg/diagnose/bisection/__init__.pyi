# The names that other rooms may use. They are imported from their modules at their first use.
from .judgement import SearchBudget as SearchBudget
from .session import SearchRequest as SearchRequest
from .session import bisect_commits as bisect_commits
