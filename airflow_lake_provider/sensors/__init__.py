"""What waits in a task for snapshots."""
