"""Running cases: in process, in worker processes, with a journal."""
