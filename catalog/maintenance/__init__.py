"""Compaction, expiry and sidecars as the catalog knows them."""
