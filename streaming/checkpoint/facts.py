"""Fixed properties of a checkpoint, in a file that each start checks.

Spark checks the state's schema and takes the number of shuffle partitions from the checkpoint. This
module rejects every other change that would make the state wrong.
"""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from brokertwin import places
from brokertwin.errors import UserError
from brokertwin.kafka_io import topics
from brokertwin.kafka_io.partitioning import group_keys
from brokertwin.settings import Settings
from brokertwin.sinks import files
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.state.cell.upgrades import can_upgrade

FILE_NAME = "brokertwin.json"
FORMER_FILE_NAME = "brokerstream.json"
"""The file name before the project was renamed; still read."""

LOCK_NAME = "brokertwin.lock"
FORMAT = 1
BEFORE_FACTS = {LOCK_NAME, f".{FILE_NAME}.new", "lost+found"}
"""Files that an unused checkpoint directory may contain."""

CHANGES = {
    "cells": "create another checkpoint with `brokertwin snapshot reshard`",
    "shuffle_partitions": "create another checkpoint with `brokertwin snapshot restore`",
}
"""How to change a property, if there is a way."""


class JobFacts(msgspec.Struct, rename="camel"):
    """The properties of a checkpoint when it was created.

    Attributes:
        format: the version of this file.
        state_version: the version of the state rows.
        prefix: the topic prefix.
        cells: number of cells of each cluster.
        brokers: broker ids of each cluster; broker 1 if a cluster is missing.
        groups: Spark grouping key of each cell; clusters can be added.
        requests_partitions: number of partitions of `requests`.
        requests_topic_id: Kafka's id of `requests`.
        shuffle_partitions: number of Spark tasks; never changes.
        incarnation: of cells that exchange messages; higher for each new checkpoint.
        loads: processor time of each cell's events in µs; without unmeasured cells.
        restored_from: the snapshot that was restored, or empty. With another prefix than the
            snapshot's, the topic id is empty until the first run.
    """

    format: int
    state_version: int
    prefix: str
    cells: int
    groups: dict[str, int]
    requests_partitions: int
    requests_topic_id: str
    shuffle_partitions: int
    brokers: dict[str, list[int]] = {}
    incarnation: int = 0
    restored_from: str = ""
    loads: dict[str, int] = {}


def check(checkpoint: Path, settings: Settings, cells: list[str], topic_id: str | None) -> None:
    """Check the properties of an existing checkpoint without writing.

    Args:
        checkpoint: the checkpoint directory.
        settings: the current settings.
        cells: the names of all cells, in the order of the clusters.
        topic_id: Kafka's id of `requests`; None if it does not exist.

    Raises:
        UserError: see `settle`.
    """
    former = read(checkpoint)
    if former is not None:
        _check(checkpoint, former, settings, cells, topic_id)


def settle(
    checkpoint: Path, settings: Settings, cells: list[str], topic_id: str, incarnation: int = 0
) -> JobFacts:
    """Write the properties of a new checkpoint, or check existing ones.

    Args:
        checkpoint: the checkpoint directory.
        settings: the current settings.
        cells: the names of all cells, in the order of the clusters.
        topic_id: Kafka's id of `requests`.
        incarnation: of a new checkpoint.

    Raises:
        UserError: the checkpoint has other cells, partitions, topics, prefix or shuffle
            partitions, or was written by a newer version.
    """
    former = read(checkpoint)
    if former is None:
        former = JobFacts(
            format=FORMAT,
            state_version=STATE_VERSION,
            prefix=settings.prefix,
            cells=settings.cells,
            groups={},
            requests_partitions=settings.requests_partitions,
            requests_topic_id=topic_id,
            shuffle_partitions=settings.shuffle_partitions,
            incarnation=incarnation,
        )
    _check(checkpoint, former, settings, cells, topic_id)
    facts = msgspec.structs.replace(
        former,
        state_version=STATE_VERSION,
        requests_topic_id=topic_id,
        groups=group_keys(cells, former.shuffle_partitions, former.loads, former.groups),
        brokers=former.brokers | {name: settings.brokers_of(name) for name in settings.clusters},
    )
    write(checkpoint, facts)
    return facts


def read(checkpoint: Path) -> JobFacts | None:
    """Read the properties of a checkpoint; None if it has none.

    Raises:
        UserError: the file is invalid.
    """
    files = (checkpoint / FILE_NAME, checkpoint / FORMER_FILE_NAME)
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=JobFacts)
    except msgspec.MsgspecError as error:
        raise UserError(
            f"Cannot read {file}: {error}.", "It was written by another version, or edited by hand."
        ) from None


def write(checkpoint: Path, facts: JobFacts) -> None:
    """Write the properties atomically, so that a crash leaves the old file."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    with files.replacing(checkpoint / FILE_NAME) as fresh:
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(facts)))
    (checkpoint / FORMER_FILE_NAME).unlink(missing_ok=True)


def add_loads(checkpoint: Path, taken: Mapping[str, int]) -> None:
    """Add to the processor time of cells' events, in µs.

    A snapshot includes these loads. A restored job distributes its cells by them.

    Args:
        checkpoint: a checkpoint that this process has locked.
        taken: by cell name.
    """
    job_facts = read(checkpoint)
    if job_facts is not None and taken:
        names = job_facts.loads.keys() | taken.keys()
        total = {name: job_facts.loads.get(name, 0) + taken.get(name, 0) for name in sorted(names)}
        write(checkpoint, msgspec.structs.replace(job_facts, loads=total))


@contextmanager
def locked(checkpoint: Path, mark: str = FILE_NAME) -> Iterator[None]:
    """Lock a checkpoint against other jobs.

    `mark`: the file that shows that the directory is a checkpoint of this kind of job.

    Raises:
        UserError: it is locked, not writable, or no checkpoint.
    """
    _check_directory(checkpoint, mark)
    if places.is_remote(checkpoint):
        with _leased(checkpoint):
            yield
        return
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        held = (checkpoint / LOCK_NAME).open("w")
    except OSError as error:
        raise UserError(
            f"Cannot write to the checkpoint {checkpoint}: {error.strerror}.",
            "Pass another --checkpoint, or change the directory's permissions.",
        ) from None
    with held as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _is_locked(checkpoint) from None
        yield


@contextmanager
def _leased(checkpoint: Path) -> Iterator[None]:
    """Lock a checkpoint in an object store. Raises UserError."""
    with ExitStack() as stack:
        try:
            stack.enter_context(places.leased(checkpoint / LOCK_NAME))
        except BlockingIOError:
            raise _is_locked(checkpoint) from None
        except OSError as error:
            raise UserError(
                f"Cannot write to the checkpoint {checkpoint}: {error}.",
                "Check the bucket, the credentials and the address of the object store.",
            ) from None
        yield


def _is_locked(checkpoint: Path) -> UserError:
    return UserError(
        f"Another job is running on the checkpoint {checkpoint}.",
        "Stop it, or pass another --checkpoint.",
    )


def _check_directory(checkpoint: Path, mark: str) -> None:
    """Check that the directory can be a checkpoint. Raises UserError."""
    try:
        names = {path.name for path in checkpoint.iterdir()} if checkpoint.exists() else set()
    except NotADirectoryError:
        raise UserError(f"--checkpoint {checkpoint} is a file.", "Pass a directory.") from None
    except OSError as error:
        raise UserError(
            f"Cannot read the checkpoint {checkpoint}: {error.strerror}.",
            "Pass another --checkpoint, or change the directory's permissions.",
        ) from None
    if names - BEFORE_FACTS - {f".{mark}.tmp"} and not names & {mark, FORMER_FILE_NAME}:
        what = "a checkpoint" if "offsets" in names else "a directory with other files"
        raise UserError(
            f"--checkpoint {checkpoint} is {what}, but not a checkpoint of brokertwin.",
            "Pass an empty directory, or one that does not exist yet.",
        )


def is_held(checkpoint: Path) -> bool | None:
    """Whether a job runs on a checkpoint; None if it does not exist."""
    if places.is_remote(checkpoint):
        return places.is_leased(checkpoint / LOCK_NAME) if checkpoint.exists() else None
    try:
        with (checkpoint / LOCK_NAME).open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def check_version(checkpoint: Path, former: JobFacts) -> None:
    """Raises UserError if a checkpoint's version is too new or too old."""
    if not can_upgrade(former.state_version):
        raise UserError(
            f"The checkpoint {checkpoint} was written by an older brokertwin: its state has"
            f" version {former.state_version}, but this brokertwin needs {STATE_VERSION}.",
            "Pass an empty --checkpoint: the job then reads the request topic again, which gives"
            " the same state.",
        )
    if former.format > FORMAT or former.state_version > STATE_VERSION:
        raise UserError(
            f"The checkpoint {checkpoint} was written by a newer brokertwin: its state has"
            f" version {former.state_version}, but this brokertwin supports up to"
            f" {STATE_VERSION}.",
            "Use the newer brokertwin, or pass another --checkpoint.",
        )


def _check_brokers(checkpoint: Path, former: JobFacts, settings: Settings) -> None:
    """Check that each cluster keeps its brokers, which have its logs."""
    for cluster in settings.clusters:
        was = former.brokers.get(cluster, [1] if cluster in former.groups else None)
        current = settings.brokers_of(cluster)
        if was is not None and was != current:
            raise UserError(
                f"The cluster {cluster} in the checkpoint {checkpoint} has brokers {listed(was)},"
                f" not {listed(current)}.",
                f"Continue with --brokers {cluster}={listed(was)}, or pass another --checkpoint and"
                " --prefix.",
            )


def listed(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))


def _check(
    checkpoint: Path, former: JobFacts, settings: Settings, cells: list[str], topic_id: str | None
) -> None:
    """Compare with the current settings. Raises UserError on a difference."""
    check_version(checkpoint, former)
    missing = [name for name in former.groups if name not in cells]
    _check_brokers(checkpoint, former, settings)
    differences = [
        ("prefix", former.prefix, settings.prefix),
        ("cells", former.cells, settings.cells),
        ("requests_partitions", former.requests_partitions, settings.requests_partitions),
    ]
    if "shuffle_partitions" in settings.model_fields_set:  # the default does not count
        differences.append(
            ("shuffle_partitions", former.shuffle_partitions, settings.shuffle_partitions)
        )
    for name, was, current in differences:
        if was != current:
            raise UserError(
                f"The checkpoint {checkpoint} was created with {name} = {was}, not {current}.",
                f"Continue with {name} = {was}, or {CHANGES.get(name, topics.ANOTHER)}.",
            )
    if missing:
        raise UserError(
            f"The checkpoint {checkpoint} also has the cells {', '.join(missing)}.",
            "Name all of its clusters with --cluster; you can add clusters but not remove any.",
        )
    if not former.requests_topic_id:
        return
    if topic_id is None:
        raise UserError(
            f"The checkpoint {checkpoint} belongs to the topic {former.prefix}.requests, which"
            " does not exist.",
            "Check --bootstrap. If the topic was deleted, pass another --checkpoint.",
        )
    if former.requests_topic_id != topic_id:
        raise UserError(
            f"The checkpoint {checkpoint} belongs to another topic {former.prefix}.requests; the"
            " current one was created later.",
            "Pass another --checkpoint.",
        )
