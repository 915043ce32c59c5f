from .api import LiveTrace as LiveTrace
from .api import compare as compare
from .api import monitor as monitor
from .api import observe as observe
from .api import trace as trace
from .errors import UserError as UserError
from .measure.analyzers import analyzer as analyzer
from .measure.metrics import METRICS as METRICS
from .subject.probes import probe as probe
from .suite.capture.live import capture as capture
from .types.metric import Metric as Metric
from .types.outcome import Comparison as Comparison

__version__: str
