# The names that other rooms may use. They are imported from their modules at their first use.
from .changes import model_nodes as model_nodes
from .changes import node_lines as node_lines
from .changes import node_site as node_site
from .engine import OnnxRewriting as OnnxRewriting
