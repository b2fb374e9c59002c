"""The allow-list: the PostgreSQL functions that Spark may compute, each as a Spark expression with the same result.

One table, keyed by the signature that PostgreSQL resolved a call to (operators resolve to functions), such as
`numeric_add(numeric,numeric)`. Other functions are refused by name. One module per family; see `registry`.
"""
