"""The text of statements: the places of parts, and words that the tree does not tell."""
