"""Landing a snapshot on a branch, once."""
