"""The planner's results: a plan for each kind of statement, and the engine that executes it."""
