"""Correlated subqueries become joins: Spark never decorrelates a subquery itself.

`levels` tells what a query uses of the queries around it. `source` holds the rows of a level and their joins. `domain`
holds the outer values for which a subquery is computed. `dependent` turns a subquery into a relation with a join
condition, `lateral` does so in FROM, and `check` inspects the SQL that leaves the planner.
"""
