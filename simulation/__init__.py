"""A whole cluster in one process and in virtual time: one seed a run, and an auditor."""
