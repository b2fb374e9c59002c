"""Functions, DO, CALL and triggers: PostgreSQL runs them over shadows that have the lake's rows."""
