"""How good the gate is: which planted faults it catches, at which tier, and which harmless changes it flags."""
