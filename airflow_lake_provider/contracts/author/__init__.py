"""Objects that an author writes into a DAG."""
