"""Routing: from the text of a statement to the portal that executes it."""
