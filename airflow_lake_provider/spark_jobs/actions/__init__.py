"""Actions of a driver: a spec goes in, a report comes out."""
