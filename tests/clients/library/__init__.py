"""A Django application whose tables grow by migrations."""
