# The names that other rooms may use. They are imported from their modules at their first use.
from .connection import ClusterRequest as ClusterRequest
from .place import ClusterPlace as ClusterPlace
from .place import open_cluster as open_cluster
