"""A Django application: a bank with branches and accounts."""
