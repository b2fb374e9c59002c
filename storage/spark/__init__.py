"""The Spark engine: scans, results, writes, errors, and its JVM."""
