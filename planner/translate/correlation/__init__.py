"""Correlated subqueries become joins here: Spark is never left to take a subquery apart from its outer rows.

`levels` tells what a query uses of the queries around it, `source` holds the rows of a level and what is joined to
them, `domain` the outer values that a subquery is computed for, `dependent` makes a relation of a subquery and says by
what condition it is joined, `lateral` does so in FROM, and `check` looks at the SQL that leaves the planner.
"""
