"""A session's transaction: the tables that it uses, its deferred schema changes, its COMMIT."""
