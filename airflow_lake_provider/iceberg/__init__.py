"""Rules of Iceberg that worker and driver share: over facts, without a library that reads tables."""
