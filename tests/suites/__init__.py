"""Test suites of other projects, run unmodified against PostgreSQL and Sluice: `python -m tests.suites NAME`."""
