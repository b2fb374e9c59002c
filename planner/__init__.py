"""The thinking: from a statement and PostgreSQL's own analysis of it to a Spark plan. Pure; nothing here waits."""
