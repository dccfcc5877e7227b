"""Pure state machines of a Kafka broker: no Spark, no I/O, no clock, no randomness.

A *cell* (`state/cell/`) holds the machines of one cluster and turns events into outputs. Each
system has its room, each machine or API one file in it, whose header says what it answers and what
it leaves out. A room imports those on the floors below it (`tests/test_imports.py` has the arrows):

    cell
    apis
    transactions
    fetch          groups
    cluster
    logs    configs    access
    core
"""
