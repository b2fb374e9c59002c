"""What all sessions of one gateway share, and the work that it does beside them."""
