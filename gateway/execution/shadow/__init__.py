"""Rows in shadows, the tables of PostgreSQL's that stand for the lake's: put there, judged, read back."""
