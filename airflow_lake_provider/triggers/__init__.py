"""What waits in the triggerer for snapshots."""
