"""The room tolerance."""
