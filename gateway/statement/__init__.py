"""From the text of a statement to a portal that carries it out."""
