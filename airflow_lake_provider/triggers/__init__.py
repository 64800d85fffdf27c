"""Triggers that wait in the triggerer for new snapshots."""
