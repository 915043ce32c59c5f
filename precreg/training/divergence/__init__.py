"""Where do two runs of one training part, and is it chaos or a loss of precision?

Runs are stored trajectories, or trainings that precreg runs. Twins of a run, with changes in the last bit, show the
noise of the training.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
