"""Reading files of arrays that nobody vouches for: .npy, .npz, .safetensors, and raw bytes; writing the first two.

A file's own words are checked against its size before anything is allocated, and nothing in it is ever run.
"""

from precreg.arrayfile.npy import read_array
from precreg.arrayfile.npz import read_arrays

__all__ = ["read_array", "read_arrays"]
