"""Keys in files, sidecars of indexes, and the files that a scan can leave out."""
