"""Rows that match, deleted or updated."""
