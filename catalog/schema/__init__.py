"""Changes of schemas: the states, the log of steps, and gateways that agree on a version."""
