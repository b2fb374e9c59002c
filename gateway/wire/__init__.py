"""Bytes and messages of the PostgreSQL protocol, and the state machine of a connection. No I/O."""
