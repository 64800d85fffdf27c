"""Compare the rows of two sides by Arrow, in the Python workers of the executors."""
