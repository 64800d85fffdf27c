"""Open and decode the Parquet files of a table by Arrow, in Python workers or in the driver."""
