"""Forms in which change data capture writes events, a folder or a file for each."""
