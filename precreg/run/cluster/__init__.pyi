# The names that other rooms may use. They are imported from their modules at their first use.
from .cluster import Cluster as Cluster
from .cluster import ClusterRequest as ClusterRequest
from .cluster import open_cluster as open_cluster
