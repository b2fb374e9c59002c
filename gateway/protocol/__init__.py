"""The session's loop, the simple and the extended query protocol."""
