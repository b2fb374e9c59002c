"""Sockets, login, admission, and supervision of the embedded PostgreSQL."""
