"""What a session holds and hands to its statements: connections, snapshot, cursors, settings, timeouts."""
