"""The state of a job as tables: Arrow, pandas and Spark frames, and SQL.

    from brokertwin import tables

    state = tables.read("/var/lib/brokertwin/checkpoint")
    state.sql("select topic, sum(sizeInBytes) from logs group by topic").to_pandas()

`schemas.py` has every table and column with its meaning.
"""

from brokertwin.tables.reading import (
    Moment,
    StoredState,
    Tables,
    batch_of,
    moment_of,
    of_cells,
    of_checkpoint,
    read,
    stored,
)

__all__ = [
    "Moment",
    "StoredState",
    "Tables",
    "batch_of",
    "moment_of",
    "of_cells",
    "of_checkpoint",
    "read",
    "stored",
]
