"""Procedural code with COMMIT or ROLLBACK: its blocks and loops, and the steps between the ends of transactions."""
