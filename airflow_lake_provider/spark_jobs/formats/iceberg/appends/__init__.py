"""Rows that are added, and those that are not as they were added lately."""
