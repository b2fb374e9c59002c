"""A session's own connection to PostgreSQL: the gateway's statements, analyses of the client's, errors."""
