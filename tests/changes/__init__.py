"""Schema changes beside other sessions: in every state, failing in every state, killed in every state."""
