"""Files of the lake: where they are, their types, bounds and statistics; written and read without Spark."""
