"""What a worker opens: the catalog of a connection, and Spark applications."""
