"""Pure state machines of a Kafka broker: no Spark, no I/O, no clock, no randomness.

A *cell* (`state/cell.py`) holds the machines of one cluster and turns events into outputs. Each
machine or API lives in one file; its header says what it answers and what it leaves out.
"""
