"""The server side of PostgreSQL's protocol: sockets, sessions, statements, and the encoding of results."""
