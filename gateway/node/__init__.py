"""What all sessions of one gateway share, and the gateway's background work."""
