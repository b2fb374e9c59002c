"""The catalog's side of compaction, expiry and sidecars."""
