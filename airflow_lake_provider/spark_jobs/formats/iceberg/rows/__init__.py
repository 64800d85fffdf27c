"""Rows of a table: where they stand, how they are read and how new ones are staged."""
