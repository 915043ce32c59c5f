"""How noisy a case is by itself: replicates of it, what they tell of its bounds, and bounds that would fit."""
