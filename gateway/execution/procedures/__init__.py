"""Procedures and code blocks that end transactions: step by step, with COMMIT and ROLLBACK between the steps."""
