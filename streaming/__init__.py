"""Code that runs on Spark or reads its checkpoints.

`job/stage.py` has the stage that decides events in a streaming query of one's own:

    decided(rows, {0: CellSettings(name="shop", cluster="shop")})

`rows` come from any `readStream` with the columns of Spark's Kafka source, and the output goes to
any `writeStream`. docs/library.md has an example.

job         `brokertwin run`: the query, its session and its measures
checkpoint  reading, writing and restoring checkpoints; snapshots
checks      data checks of topics and states
"""

if __name__ != "brokertwin.streaming":
    raise ImportError(f"import brokertwin.streaming: as {__name__!r} its modules would exist twice")
