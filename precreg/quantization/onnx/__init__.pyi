# The names that other rooms may use. They are imported from their modules at their first use.
from .feeds import read_feeds as read_feeds
from .feeds import read_stored_feeds as read_stored_feeds
from .graph import load_graph as load_graph
from .graph import run_whole as run_whole
from .qdq import has_qdq as has_qdq
from .qdq import read_qdq as read_qdq
from .segments import STEP as STEP
from .simulated import simulate_graph as simulate_graph
