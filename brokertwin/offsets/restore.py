"""Committing offsets to a cluster: check each partition, save, write, read back, undo."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.offsets import group_offsets
from brokertwin.offsets.group_offsets import CommittedPosition, Place
from brokertwin.offsets.plan import OffsetStep, OffsetVerdict, plan
from brokertwin.offsets.sources import OffsetSource
from brokertwin.sinks.files import replacing
from brokertwin.state.groups.offset_records import OffsetKey

BY_TIME = "--by-time HOST:PORT of the source cluster finds each record by its time."

UNDOABLE = frozenset(
    {
        OffsetVerdict.FINE,
        OffsetVerdict.BACK,
        OffsetVerdict.BEFORE_START,
        OffsetVerdict.PAST_END,
    }
)


class Change(msgspec.Struct, frozen=True):
    """A committed offset before and after a command; None if there is none."""

    group: str
    topic: str
    partition: int
    before: int | None
    after: int | None

    @property
    def key(self) -> OffsetKey:
        return OffsetKey(self.group, self.topic, self.partition)


class SavedOffsets(msgspec.Struct, frozen=True):
    """Content of a file that undoes a command."""

    cluster: str
    changes: list[Change]


class Undo(NamedTuple):
    """How each change of a file is undone.

    Attributes:
        moved: changes whose offset is no longer the one that the command wrote.
        deleted: offsets that did not exist before.
        steps: offsets to commit.
    """

    moved: list[Change]
    deleted: list[Change]
    steps: list[OffsetStep]


def steps(
    target: ClientProperties,
    committed: Mapping[OffsetKey, int],
    records_at: ClientProperties | None = None,
) -> list[OffsetStep]:
    """Check offsets against a cluster.

    Args:
        target: the cluster to commit to.
        committed: the offsets.
        records_at: the cluster of the offsets, if they are translated by record timestamps.

    Raises:
        UserError: a cluster does not respond.
    """
    found = group_offsets.found(target, committed)
    if records_at is None:
        return plan({key: (offset, offset) for key, offset in committed.items()}, found)
    targets, skipping = _translated(target, committed, records_at, found.logs)
    return plan(targets, found, skipping)


def _translated(
    target: ClientProperties,
    committed: Mapping[OffsetKey, int],
    records_at: ClientProperties,
    logs: Mapping[Place, tuple[int, int]],
) -> tuple[dict[OffsetKey, tuple[int, int | None]], set[OffsetKey]]:
    """Return each offset as given and its value at the target, and those that skip records.

    It is the first record at the target that is not older than the next record to read, so that
    no record of the target is skipped; records of the same millisecond can be read again. If the
    log is empty in both clusters, it is the end of the target's.
    """
    targets: dict[OffsetKey, tuple[int, int | None]] = {}
    skipping: set[OffsetKey] = set()
    for _, keys in groupby(sorted(committed), key=lambda key: key.group):
        places = {(key.topic, key.partition): key for key in keys}
        here = {at: committed[key] for at, key in places.items() if at in logs}
        records = group_offsets.next_records(records_at, here)
        known = {at: r.timestamp for at, r in records.items() if r.timestamp is not None}
        found = group_offsets.at_timestamps(target, known)
        at_start = {
            at: known[at] for at in known if records[at].exists and found[at] == logs[at][0]
        }
        skipping |= {places[at] for at in _begins_later(target, records_at, at_start)}
        for at in records.keys() - known.keys():
            first, end = logs[at]
            found |= {at: end} if first == end else {}
        targets |= {key: (committed[key], found.get(at)) for at, key in places.items()}
    return targets, skipping


def _begins_later(
    target: ClientProperties, records_at: ClientProperties, times: Mapping[Place, int]
) -> list[Place]:
    """Return the places whose first record at the target is newer than the next one to read.

    Timestamps may be out of order: a target that begins with the source's first record is complete.
    """
    firsts = _first_timestamps(target, times)
    later = [at for at, first in firsts.items() if first > times[at]]
    begins = _first_timestamps(records_at, later)
    return [at for at in later if firsts[at] > begins.get(at, times[at])]


def _first_timestamps(client: ClientProperties, places: Iterable[Place]) -> dict[Place, int]:
    records = group_offsets.next_records(client, dict.fromkeys(places, 0))
    return {
        at: record.timestamp
        for at, record in records.items()
        if record.exists and record.timestamp is not None
    }


def write(target: ClientProperties, chosen: Sequence[OffsetStep]) -> dict[OffsetKey, str]:
    """Commit offsets; return the error of each one that is not as written."""
    wrong: dict[OffsetKey, str] = {}
    for group, of_group in groupby(chosen, key=lambda step: step.key.group):
        wrong |= group_offsets.write(target, group, list(of_group))
    return wrong


def changes_of(chosen: Sequence[OffsetStep]) -> list[Change]:
    """Return the changes that `write` makes."""
    return [
        Change(step.key.group, step.key.topic, step.key.partition, step.committed, step.wanted)
        for step in chosen
    ]


def deletions_of(group: str, places: Sequence[CommittedPosition]) -> list[Change]:
    return [Change(group, each.topic, each.partition, each.offset, None) for each in places]


def save(file: Path, target: ClientProperties, changes: Sequence[Change]) -> None:
    """Write the changes to a new file before they are made.

    Raises:
        UserError: the file exists or cannot be written, or the cluster does not respond.
    """
    saved = SavedOffsets(group_offsets.cluster_id(target), list(changes))
    if file.exists():
        raise UserError(f"{file} exists.", "Pass another file as --saved; nothing was changed.")
    try:
        with replacing(file) as temporary:
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(saved), indent=1))
    except OSError as error:
        raise UserError(
            f"Cannot write {file}: {error.strerror}.", "Nothing was changed; pass --saved FILE."
        ) from None


def read_saved(file: Path, target: ClientProperties) -> SavedOffsets:
    """Read a file of `save`. Raises UserError if it is another file, or of another cluster."""
    try:
        saved = msgspec.json.decode(file.read_bytes(), type=SavedOffsets)
    except OSError as error:
        raise UserError(f"Cannot read {file}: {error.strerror}.") from None
    except msgspec.MsgspecError:
        raise UserError(
            f"{file} has no offsets to undo.",
            "Pass the file that `offsets export --to` or `offsets clean --execute` named.",
        ) from None
    if (there := group_offsets.cluster_id(target)) != saved.cluster:
        raise UserError(
            f"{file} is of cluster {saved.cluster}, and {target.bootstrap} is cluster {there}.",
            "Pass the address of the cluster that was changed.",
        )
    return saved


def undo_of(saved: SavedOffsets, target: ClientProperties) -> Undo:
    """Check which changes can be undone. Raises UserError if the cluster does not respond."""
    found = group_offsets.found(target, [change.key for change in saved.changes])
    as_written = {
        change for change in saved.changes if found.committed.get(change.key) == change.after
    }
    back = {c.key: (c.before, c.before) for c in as_written if c.before is not None}
    return Undo(
        [change for change in saved.changes if change not in as_written],
        [change for change in saved.changes if change in as_written and change.before is None],
        plan(back, found),
    )


def undo(target: ClientProperties, found: Undo) -> dict[OffsetKey, str]:
    """Commit and delete; return the error of each offset that is not as before.

    An offset outside of the log is committed, too: it was there before.
    """
    chosen = [step for step in found.steps if step.verdict in UNDOABLE]
    wrong = write(target, chosen)
    wrong |= {step.key: step.verdict.value for step in found.steps if step not in chosen}
    for group, changes in groupby(found.deleted, key=lambda change: change.group):
        places = [CommittedPosition(c.topic, c.partition, c.after or 0, True) for c in changes]
        errors = group_offsets.delete(target, group, places)
        wrong |= {OffsetKey(group, at.topic, at.partition): why for at, why in errors.items()}
    return wrong


def warning_of_other_logs(
    source: OffsetSource, target: ClientProperties, committed: Mapping[OffsetKey, int]
) -> str | None:
    """Return a warning if offsets are to be committed to a cluster whose logs differ.

    The cluster of a file's offsets is unknown. Raises UserError if a cluster does not respond.
    """
    cluster = source.cluster_id()
    if cluster is None or cluster == group_offsets.cluster_id(target):
        return None
    if not source.is_cluster:
        return (
            f"The offsets are of cluster {cluster}, and {target.bootstrap} is another one: the same"
            f" offset may be another record there. {BY_TIME}"
        )
    places = {(key.topic, key.partition) for key in committed}
    clients = (source.connect(source.text), target)
    here, there = (group_offsets.logs(client, places) for client in clients)
    differing = sorted(place for place in here.keys() & there.keys() if here[place] != there[place])
    if not differing:
        return None
    (topic, number), count = differing[0], len(differing)
    spans = [f"{first}..{last}" for first, last in (here[topic, number], there[topic, number])]
    return (
        f"The logs of {count} partition{'s' * (count > 1)} differ: {topic}-{number} has offsets"
        f" {spans[0]} at {source.text} and {spans[1]} at {target.bootstrap}. The same offset"
        f" may be another record there. {BY_TIME}"
    )
