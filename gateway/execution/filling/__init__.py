"""Shadows filled with lake rows for functions: copies, keys that are sought, and what a statement did to them."""
