"""The allow-list: which PostgreSQL functions Spark may compute, each as an expression that gives the same answer.

One table, keyed by the signature that PostgreSQL resolved a call to (operators resolve to functions), such as
`numeric_add(numeric,numeric)`. What is not in it is refused by name. One module per family; see `registry`.
"""
