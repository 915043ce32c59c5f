"""Mutated inputs for every reader: each ends in a value or in a UserError that names the file."""
