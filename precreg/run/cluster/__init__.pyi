# The names that other rooms may use. They are imported from their modules at their first use.
from .cluster import Cluster as Cluster
from .cluster import describe_refusal as describe_refusal
from .cluster import open_cluster as open_cluster
from .connection import ClusterRequest as ClusterRequest
