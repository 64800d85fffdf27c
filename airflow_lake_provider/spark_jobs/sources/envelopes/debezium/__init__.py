"""Change events of Debezium, in every form that Kafka sinks write."""
