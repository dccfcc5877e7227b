"""State as rows and tables: Arrow, pandas and Spark frames, and SQL.

    from brokertwin import tables

    state = tables.read("/var/lib/brokertwin/checkpoint")
    state.sql("select topic, sum(sizeInBytes) from logs group by topic").to_pandas()

`schemas` has every table and column with its meaning, `state_rows` the rows of a cell. The names
below load `query`, which reads checkpoints, snapshots and recordings, when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brokertwin.tables.query.reading import (
        Moment,
        StoredState,
        Tables,
        batch_of,
        moment_of,
        of_cells,
        of_checkpoint,
        read,
        register,
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
    "register",
    "stored",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("brokertwin.tables.query.reading"), name)
