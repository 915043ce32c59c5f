"""The check before a push: what git says is pushed, and the hook that asks for the check."""
