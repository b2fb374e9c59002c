"""Tests on a Spark cluster of several workers, where blocks of a shuffle arrive in any order."""
