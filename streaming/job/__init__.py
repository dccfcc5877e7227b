"""The broker job: the streaming query, its operator, its clock and its Spark session."""
