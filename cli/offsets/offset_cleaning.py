"""`brokertwin offsets clean`: delete the committed offsets of a group."""

from pathlib import Path

from brokertwin.cli.offsets.offset_sources import client_of
from brokertwin.cli.output import say, show_json, show_table
from brokertwin.wording import counted

INCOMPLETE = 1


def clean(
    cluster: str, group: str, kafka_config: Path | None, executes: bool, as_json: bool
) -> int:
    """Check the group, show its offsets, and delete them if `executes`; returns the exit code."""
    from brokertwin.kafka_io import group_cleaning

    client = client_of(cluster, kafka_config)
    places = group_cleaning.checked(client, group)
    there = [place for place in places if place.exists]
    wrong = group_cleaning.delete(client, group, there) if executes and there else {}
    done = "deleted" if executes else "would be deleted"
    rows = [
        (place.topic, place.partition, place.offset, wrong.get(place, done))
        if place.exists
        else (place.topic, place.partition, place.offset, "no such partition")
        for place in places
    ]
    columns = ("topic", "partition", "offset", "result")
    if as_json:
        for row in rows:
            show_json(dict(zip(columns, row, strict=True)))
    else:
        show_table(columns, rows)
    left = len(places) - len(there) + len(wrong)
    hint = "" if executes else "; pass --execute to delete"
    say(f"{counted(len(there) - len(wrong), 'offset')} {done}, {left} cannot be deleted{hint}")
    return INCOMPLETE if left else 0
