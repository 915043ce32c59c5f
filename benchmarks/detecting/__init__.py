"""Changes of implementation of numerical operators, what they truly cost, and which rules notice it."""
