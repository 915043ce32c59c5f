# The names that other rooms may use. They are imported from their modules at their first use.
from .commits import snapshot as snapshot
from .judgement import SearchBudget as SearchBudget
from .search import smallest_set as smallest_set
from .session import SearchRequest as SearchRequest
from .session import bisect_commits as bisect_commits
from .session import bisect_packages as bisect_packages
from .session import bisect_settings as bisect_settings
from .session import judge_working_tree as judge_working_tree
from .source_parts import SourcePart as SourcePart
from .source_parts import edited as edited
from .source_parts import functions_changed as functions_changed
from .source_parts import operations_of as operations_of
from .source_parts import statements_of as statements_of
from .undo import changed_between as changed_between
from .undo import file_content as file_content
