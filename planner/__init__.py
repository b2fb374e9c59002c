"""The planner: from a statement and PostgreSQL's analysis of it to a Spark plan. Pure, without I/O."""
