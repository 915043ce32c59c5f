"""DriftRecord -> terminal, JUnit, Markdown, HTML with the series drawn."""
