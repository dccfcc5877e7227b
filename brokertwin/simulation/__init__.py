"""A whole cluster in one process and in virtual time: one seed per run, and an auditor."""
