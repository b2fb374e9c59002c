"""Attacks on every boundary of docs/security.md."""
