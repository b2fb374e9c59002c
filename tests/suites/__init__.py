"""Other people's test suites, run unmodified against PostgreSQL and Sluice: `python -m tests.suites NAME`."""
