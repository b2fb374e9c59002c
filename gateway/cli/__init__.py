"""The commands of `sluice`."""
