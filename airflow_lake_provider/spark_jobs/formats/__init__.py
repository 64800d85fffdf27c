"""The only place that knows a table format; commits happen here."""
