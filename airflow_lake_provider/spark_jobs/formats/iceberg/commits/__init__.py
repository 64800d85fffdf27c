"""Commit a snapshot to a branch, once, with the files that delete rows by position."""
