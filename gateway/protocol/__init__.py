"""The session's loop, and the simple and the extended query protocol."""
