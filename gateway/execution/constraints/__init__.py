"""Keys, references and CHECKs over rows of the lake."""
