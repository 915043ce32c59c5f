"""Does precreg name the cause of a loss? A set of planted causes, and the score of a diagnosis on it."""
