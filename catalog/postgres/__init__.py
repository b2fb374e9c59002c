"""The PostgreSQL below the catalog: the embedded server, connections, settings, encodings."""
