"""Rows of a batch, reduced to one change for each key; no table format is known here."""
