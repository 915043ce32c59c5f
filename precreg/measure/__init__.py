"""How far apart: measurements of one actual array against one reference, without judgement."""
