"""Keys in files, sidecars of indexes, and which files a scan can leave out."""
