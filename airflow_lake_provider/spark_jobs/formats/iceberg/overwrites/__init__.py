"""Put rows in place of partitions, which the metadata has to tell whole."""
