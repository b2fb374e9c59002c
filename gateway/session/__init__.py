"""The state of a session that its statements use: connections, snapshot, cursors, settings, timeouts."""
