# The names that other rooms may use. They are imported from their modules at their first use.
from .rows import format_site as format_site
