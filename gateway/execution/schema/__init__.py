"""Schema changes: PostgreSQL changes the shadow, the gateway validates and rewrites existing rows."""
