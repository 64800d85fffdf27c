"""Tables as scheduler, triggerer and worker know them: no Spark and no Airflow. Only ``iceberg`` imports PyIceberg."""
