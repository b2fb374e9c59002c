"""`sluice check`, compaction, files written anew, files that no snapshot names."""
