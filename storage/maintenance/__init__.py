"""`sluice check`, compaction, rewritten files, orphan files."""
