"""One ``iceberg`` connection, read as PyIceberg properties and as Spark settings; standard library only."""
