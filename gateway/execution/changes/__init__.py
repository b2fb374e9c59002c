"""INSERT, UPDATE, DELETE, MERGE, ON CONFLICT, and queries that lock rows: row changes and their consequences."""
