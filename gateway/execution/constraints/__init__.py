"""Checks of keys, foreign keys and CHECKs over lake rows."""
