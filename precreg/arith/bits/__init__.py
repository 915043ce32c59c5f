"""One number told bit by bit: how it is written, what its patterns mean, what each format makes of it."""
