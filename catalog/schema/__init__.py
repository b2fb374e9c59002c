"""Schema changes: the states, the log of steps, and the agreement of gateways on a version."""
