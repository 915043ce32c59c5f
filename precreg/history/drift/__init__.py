"""The room history/drift."""
