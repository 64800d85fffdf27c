"""Applied state: what a table has consumed, as its properties and summaries say it."""
