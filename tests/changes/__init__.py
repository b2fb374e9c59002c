"""Changes of schemas while everybody works: in every state, failing in every state, killed in every state."""
