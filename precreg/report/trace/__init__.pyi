# The names that other rooms may use. They are imported from their modules at their first use.
from .monitor import describe_overhead as describe_overhead
from .rows import format_site as format_site
