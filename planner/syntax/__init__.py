"""The text of statements, as far as the tree does not tell: where parts stand, and which words are there."""
