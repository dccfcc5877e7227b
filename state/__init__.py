"""Pure state machines of a Kafka broker: no Spark, no I/O, no clock, no randomness.

    cell = Cell(CellSettings(name="shop", cluster="shop"))
    rows = cell.handle(document, Position(partition=0, offset=0))

The document is an event (`core/events.py`), and the rows are those of the job's topics
(`core/outputs.py`). `Cell.columns()` is the state, and `Cell(settings, columns)` goes on from it.
docs/library.md has an example.

A *cell* (`state/cell/`) holds the machines of one cluster and turns events into outputs. Each
system has its room, each machine or API one file in it, whose header describes its responses and
its gaps. A room imports those on the floors below it (`tests/test_imports.py` has the arrows):

    cell
    apis
    transactions
    fetch          groups
    cluster
    logs    configs    access
    core
"""

if __name__ != "brokertwin.state":
    raise ImportError(f"import brokertwin.state: as {__name__!r} its modules would exist twice")
