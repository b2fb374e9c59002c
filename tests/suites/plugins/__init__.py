"""Plug-ins of pytest for suites of other projects, found by their bare names."""
