"""What a submission needs and no Airflow does: the shipped archive, the files of an attempt, the installed Spark."""
