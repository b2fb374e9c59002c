"""A session's own connection to PostgreSQL: statements of the gateway's, analyses of the client's, errors."""
