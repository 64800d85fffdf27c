"""Tables and queries of relational databases, read through Spark's JDBC reader."""
