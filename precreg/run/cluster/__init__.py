"""How do the items of a task run on the machines of a Dask cluster?

Dask carries batches of items to its workers, and each worker runs them in processes of precreg's own pool. So a crash
or a hang costs one item, as on one machine, and the Dask worker goes on.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
