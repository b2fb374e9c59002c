"""Temporary tables that get rows of the lake."""
