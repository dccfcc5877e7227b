"""Faults in real processes: Kafka, a job on Spark, a gateway, clients under load.

`python -m tests.faults` breaks one of them again and again, waits until all goes on, and holds what
clients and topics show against what must be (`checks.py`). The cases are in `cases/`; what is
broken on is a `Stand`. `docs/reliability.md` has what came out.
"""
