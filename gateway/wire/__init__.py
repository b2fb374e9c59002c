"""Bytes and messages of the PostgreSQL protocol, and the machine of its states. Pure."""
