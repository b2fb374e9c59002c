"""Functions, DO, CALL and triggers: PostgreSQL executes them over shadows filled with lake rows."""
