"""Arithmetic in place of numpy's: arrays whose operations another arithmetic computes, and devices as tables."""
