"""Page of the lake in Airflow's UI: the state of all tables, and of each one, from Airflow's own database."""
