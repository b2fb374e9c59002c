"""COPY of lake tables in both directions."""
