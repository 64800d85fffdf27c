"""Commit a snapshot to a branch, once."""
