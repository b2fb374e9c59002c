"""Files of the lake: their places, types, bounds and statistics; written and read without Spark."""
