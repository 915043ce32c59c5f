"""The error of training in each format: final losses and held-out figures over seeds, with confidence intervals."""
