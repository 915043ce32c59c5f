"""What a case is fed: arrays that are bit-identical on every platform and numpy version."""
