"""The broker job: streaming query, operator, clock and Spark session."""
