"""Apache Iceberg through Spark and its Java API."""
