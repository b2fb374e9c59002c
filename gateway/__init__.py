"""The talking: sockets, the PostgreSQL protocol, sessions, and the encoding of results."""
