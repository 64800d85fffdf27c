"""A DAG author's words become a spec; the driver's report becomes XCom and an asset event."""
