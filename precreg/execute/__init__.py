"""Running cases: in this process or in workers, each case one outcome, kept in a journal as it comes."""
