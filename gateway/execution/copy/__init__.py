"""COPY in both directions."""
