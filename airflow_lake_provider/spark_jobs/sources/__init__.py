"""Reading a batch: which files, which rows, which change events. Nothing here knows a table format."""
