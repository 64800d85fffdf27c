"""Positions of rows, and the delete files that take them out of a table."""
