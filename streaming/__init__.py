"""Everything that touches Spark: the job, its clock, what reads its state; replay and ingest."""
