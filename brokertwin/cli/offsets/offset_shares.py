"""`brokertwin offsets shares`: progress of share groups of a real cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokertwin.cli.offsets.offset_sources import client_of, progress, warn_of_unread
from brokertwin.cli.output import show_json, show_table
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.state.core.share_records import ShareStateBatch

COLUMNS = ("group", "topic", "partition", "start", "lag", "batches")
STATES = {0: "available", 2: "acknowledged", 4: "archived"}
"""Kafka's `RecordState`, as far as it is stored."""


def show(cluster: str, groups: Sequence[str], kafka_config: Path | None, as_json: bool) -> None:
    """Print a row for each partition of a share group.

    Raises:
        UserError: the cluster does not respond, has no share group, or none of these.
    """
    from brokertwin.offsets import group_offsets
    from brokertwin.offsets.share_progress import ShareProgress, lag

    rows: list[tuple[Any, ...]] = []
    client, seen = client_of(cluster, kafka_config), ShareProgress()
    with progress(f"reading {group_offsets.SHARE_TOPIC}") as observe:
        for row in sorted(group_offsets.rows(client, {}, observe, group_offsets.SHARE_TOPIC)):
            seen.take(row)
    warn_of_unread(group_offsets.SHARE_TOPIC, seen.unread)
    lacking = sorted(set(groups) - {key.group for key in seen.found})
    if lacking:
        raise UserError(
            f"{cluster} has no state of the share groups {', '.join(lacking)}.",
            "Leave out --group to list all share groups.",
        )
    found = {key: said for key, said in seen.found.items() if not groups or key.group in groups}
    names = group_offsets.topic_names(client)
    places = {key: (names.get(key.topic_id, key.topic_id), key.partition) for key in found}
    there = [place for key, place in places.items() if key.topic_id in names]
    ends = group_offsets.ends(client, there)
    for key in sorted(found, key=lambda key: (key.group, *places[key])):
        end = ends.get(places[key])
        left = lag(found[key], end) if end is not None else None
        rows.append((key.group, *places[key], found[key].start_offset, left, found[key].batches))
    _show(rows, as_json)


def _show(rows: "list[tuple[Any, ...]]", as_json: bool) -> None:
    if as_json:
        for *said, batches in rows:
            documents = [_document(each) for each in batches]
            show_json(dict(zip(COLUMNS, [*said, documents], strict=True)))
        return
    shown = [(*said, "; ".join(map(_text, batches))) for *said, batches in rows]
    show_table((*COLUMNS[:-1], "batches after the start offset"), shown)


def _text(batch: "ShareStateBatch") -> str:
    """Format a batch: `5 to 9 available, delivered 3 times`."""
    span = f"{batch.first_offset}"
    if batch.last_offset > batch.first_offset:
        span += f" to {batch.last_offset}"
    return f"{span} {_state(batch)}, delivered {_times(batch.delivery_count)}"


def _document(batch: "ShareStateBatch") -> dict[str, object]:
    return {
        "firstOffset": batch.first_offset,
        "lastOffset": batch.last_offset,
        "state": _state(batch),
        "deliveryCount": batch.delivery_count,
    }


def _state(batch: "ShareStateBatch") -> str:
    return STATES.get(batch.delivery_state, f"state {batch.delivery_state}")


def _times(count: int) -> str:
    """`once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"
