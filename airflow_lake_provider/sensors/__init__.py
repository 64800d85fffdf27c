"""Sensors that wait in a task for new snapshots."""
