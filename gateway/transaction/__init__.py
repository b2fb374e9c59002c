"""A session's transaction: the tables that it uses, the changes that it holds back, its COMMIT."""
