"""Which files a case depends on, read from suites and modules, and remembered."""
