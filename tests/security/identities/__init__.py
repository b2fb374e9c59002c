"""Random scripts in which users' code reports the role it runs as: PostgreSQL's own run is the oracle."""
