"""The Spark engine: scans, results, writes, errors, and the JVM that it runs in."""
