"""Changes of schemas: PostgreSQL changes the shadow, the gateway sees to the rows that are there."""
