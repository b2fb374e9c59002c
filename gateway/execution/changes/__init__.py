"""INSERT, UPDATE, DELETE, MERGE, ON CONFLICT, locking queries: rows that change, and what follows from it."""
