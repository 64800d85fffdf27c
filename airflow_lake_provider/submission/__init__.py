"""Parts of a submission that need no Airflow: the shipped archive, the files of an attempt, the installed Spark."""
