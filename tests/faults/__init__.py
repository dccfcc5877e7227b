"""Faults in real processes: Kafka, a job on Spark, a gateway, clients under load.

`python -m tests.faults` injects a fault repeatedly, waits for the recovery, and checks the clients
and topics (`checks.py`). The cases are in `cases.py`; they run on a `Stand`. The results are in
`README.md`.
"""
