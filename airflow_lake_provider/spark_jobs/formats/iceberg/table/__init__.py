"""One table: its metadata, its creation, its schema, and the predicates it can judge."""
