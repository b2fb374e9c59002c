"""What comes out of the planner: a plan for each kind of statement, and who carries it out."""
