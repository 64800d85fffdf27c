"""Reading what changed between two snapshots."""
