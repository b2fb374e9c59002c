"""Temporary tables that are filled or changed with lake rows."""
