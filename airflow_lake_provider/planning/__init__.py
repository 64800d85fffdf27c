"""Plans of a worker, made from a table's facts and ``tables.base``: no PyIceberg, no Spark and no Airflow."""
