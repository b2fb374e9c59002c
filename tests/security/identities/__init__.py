"""Random scripts in which users' code tells who it runs as: PostgreSQL's own run is the oracle."""
