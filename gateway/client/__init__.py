"""A client's connection: frames in, bytes out, backpressure, and the client's encoding."""
