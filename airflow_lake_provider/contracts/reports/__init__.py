"""Reports: what a driver answers."""
