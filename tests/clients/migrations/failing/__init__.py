"""A version that fails."""
