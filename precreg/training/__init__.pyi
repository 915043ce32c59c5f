# The names that other rooms may use. They are imported from their modules at their first use.
from .advice.user_recipe import advise_target as advise_target
from .clipping import find_clipped_before_unscale as find_clipped_before_unscale
from .clipping import sweep_clipping as sweep_clipping
from .divergence.trajectory import record_trajectory as record_trajectory
from .gauges import GradientGauges as GradientGauges
from .gauges import losses_of as losses_of
from .gradients import StepGradients as StepGradients
from .gradients import read_gradients as read_gradients
from .loss_scale import sweep_scales as sweep_scales
from .scaler import summarize_scaler as summarize_scaler
from .stored import record_of_gradients as record_of_gradients
from .tensor_scale import sweep_tensor_scales as sweep_tensor_scales
from .user_training import observe_target as observe_target
