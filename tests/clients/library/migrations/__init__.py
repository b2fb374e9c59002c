"""From nothing to what the models are now."""
