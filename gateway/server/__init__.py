"""Sockets, login, admission, and the embedded PostgreSQL beside the gateway."""
