"""Findings in Parquet: a file for each hour of their exchanges.

A micro-batch replaces the rows that it wrote before, so a repeated one writes nothing twice. A
finding that is completed has a row for each version, as in the topic.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from brokertwin.sinks import files
from brokertwin.streaming.live.operator import FINDINGS

HOUR = "%Y-%m-%dT%H"
COLUMNS = (
    *("id", "cluster", "severity", "kind", "subject", "error", "what", "cause", "rule", "source"),
    *("do", "withdrawn"),
)


def write(
    directory: Path, query_id: str, batch: int, values: Iterable[bytes], kept_days: int
) -> None:
    """Write the findings of a micro-batch, and delete files of too long ago.

    Args:
        directory: the parent directory.
        query_id: Spark's id of the query.
        batch: number of the micro-batch.
        values: encoded documents.
        kept_days: how much older than the newest hour of the micro-batch an hour may be.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    by_hour: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for value in values:
        document = msgspec.json.decode(value)
        by_hour[_hour(document)].append(document)
    target = directory / FINDINGS
    for hour, documents in by_hour.items():
        target.mkdir(parents=True, exist_ok=True)
        path = target / f"{hour}.parquet"
        new = _table(query_id, batch, documents)
        if path.exists():
            former = pq.read_table(pa.BufferReader(path.read_bytes()))
            is_other = [
                (each["query"], each["batch"]) != (query_id, batch)
                for each in former.select(["query", "batch"]).to_pylist()
            ]
            new = pa.concat_tables([former.filter(pa.array(is_other, pa.bool_())), new])
        with files.replacing(path) as temporary:
            pq.write_table(new, temporary)
    if by_hour:
        newest = datetime.strptime(max(by_hour), HOUR).replace(tzinfo=UTC)
        oldest = (newest - timedelta(days=kept_days)).strftime(HOUR)
        for path in target.glob("*.parquet"):
            if path.stem < oldest:
                path.unlink()


def _hour(document: dict[str, Any]) -> str:
    return datetime.fromtimestamp(int(document["from"]) / 1000, UTC).strftime(HOUR)


def _table(query_id: str, batch: int, documents: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    columns: dict[str, Any] = {name: [each[name] for each in documents] for name in COLUMNS}
    columns |= {
        "from_ms": [int(each["from"]) for each in documents],
        "to_ms": [int(each["to"]) for each in documents],
        "clients": pa.array([each["clients"] for each in documents], pa.list_(pa.string())),
        "by": pa.array([each["by"] for each in documents], pa.list_(pa.string())),
        "evidence": pa.array([_evidence(each) for each in documents], pa.list_(_evidence_type())),
        "batch": [batch] * len(documents),
        "query": [query_id] * len(documents),
    }
    schema = {name: pa.string() for name in COLUMNS} | {"withdrawn": pa.bool_()}
    return pa.table(
        {
            name: pa.array(values, schema[name]) if name in schema else values
            for name, values in columns.items()
        }
    )


def _evidence(document: dict[str, Any]) -> list[dict[str, Any]]:
    names = ("place", "client", "said")
    return [
        {**{name: each[name] for name in names}, "time_ms": int(each["time"])}
        for each in document["evidence"]
    ]


def _evidence_type() -> Any:
    import pyarrow as pa

    return pa.struct(
        [
            ("place", pa.string()),
            ("client", pa.string()),
            ("said", pa.string()),
            ("time_ms", pa.int64()),
        ]
    )
