"""A client's connection: incoming frames, outgoing bytes, backpressure, and the client's encoding."""
