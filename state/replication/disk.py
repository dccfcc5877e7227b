"""A broker's log directories: where a log lies, and the checkpoint files of each directory.

Source: seed 004; `LogManager.nextLogDirs`, `checkpointRecoveryOffsetsInDir`, `checkpointLogStart-
OffsetsInDir`, `ReplicaManager.checkpointHighWatermarks`, `LeaderEpochFileCache` in Kafka. With
several `log.dirs` a new log goes where AlterReplicaLogDirs has wished it, else to the one that has
the fewest, the first of those. Each directory has a set of files:

    replication-offset-checkpoint      high watermarks, as the broker has last written them
                                       (`checkpoints.py`)
    recovery-point-offset-checkpoint   log ends: what a job has committed is stored
    log-start-offset-checkpoint        log starts above 0
    cleaner-offset-checkpoint          nothing: no log is compacted
    <topic>-<n>/leader-epoch-checkpoint

Wishes are an item of the table `replication`, which a broker forgets when it stops:
`<broker>/wished-dirs`. A directory that has failed (`directories.py`) gets no log and has
no files.
"""

from collections import Counter

import msgspec

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.records import LogPlaced
from brokertwin.state.core.schema import Uuid
from brokertwin.state.logs import checkpoint_files
from brokertwin.state.logs.checkpoint_files import Epochs, Offsets
from brokertwin.state.logs.log import Log
from brokertwin.state.replication import checkpoints

WISHES_MAX = 1000
"""Logs that are not there yet and have a wished directory; of more the oldest wish goes."""


class WishedDirs(msgspec.Struct):
    """Directories of logs that are not there yet, by `<topic>-<partition>`, the oldest first."""

    paths: dict[str, str]


def directory_of(broker: Broker, log: Log) -> str:
    """Where a log lies."""
    return log.directory or broker.log_dirs[0]


def wish(broker: Broker, topic: str, partition: int, path: str) -> None:
    """A log that may come is to lie there."""
    paths = _wishes(broker)
    paths.pop(f"{topic}-{partition}", None)
    paths[f"{topic}-{partition}"] = path
    if len(paths) > WISHES_MAX:
        del paths[next(iter(paths))]
    _keep_wishes(broker, paths)


def _keep_wishes(broker: Broker, paths: dict[str, str]) -> None:
    if paths:
        broker.tables.replication.put(_wishes_key(broker.id), WishedDirs(paths))
    else:
        broker.tables.replication.drop(_wishes_key(broker.id))


def _wishes(broker: Broker) -> dict[str, str]:
    found = broker.tables.replication.get(_wishes_key(broker.id), WishedDirs)
    return dict(found.paths) if found is not None else {}


def _wishes_key(broker: int) -> str:
    return f"{broker}/wished-dirs"


def without_place(broker: Broker, topic_id: Uuid) -> frozenset[int]:
    """The partitions of a topic whose logs came when there was one directory: the first has them.

    No log has a place there; where there are several, one is without it until somebody notes it.
    """
    topic = broker.topic_by_id(topic_id)
    if len(broker.settings.log_dirs) < 2 or topic is None:
        return frozenset()
    logs = (broker.held_log(topic_id, number) for number in range(len(topic.partitions)))
    return frozenset(log.partition for log in logs if log is not None and not log.directory)


def placed(broker: Broker, topic_id: Uuid, older: frozenset[int] = frozenset()) -> list[LogPlaced]:
    """Where a broker puts the logs of a topic that have no place yet; wishes for them are over.

    The `older` ones were there before: they stay in the first directory, even if it has failed.
    """
    several = broker.settings.log_dirs
    topic = broker.topic_by_id(topic_id)
    if len(several) < 2 or topic is None:
        return []
    live, cordoned = broker.live_dirs, broker.cordoned_dirs
    there = [each for each in live if each not in cordoned] or live[:1]
    counts = Counter(
        directory_of(broker, log)
        for log in _logs(broker)
        if log.directory or log.topic_id != topic_id or log.partition in older
    )
    wishes = _wishes(broker)
    found = []
    for partition in range(len(topic.partitions)):
        log = broker.held_log(topic_id, partition)
        if log is None or log.directory:
            continue
        directory = several[0]
        if partition not in older:
            fewest = min(there, key=counts.__getitem__)
            wished = wishes.pop(f"{topic.name}-{partition}", fewest)
            directory = wished if wished in there else fewest
            counts[directory] += 1
        found.append(LogPlaced(topic_id, partition, directory))
    if found and wishes != _wishes(broker):
        _keep_wishes(broker, wishes)
    return found


def files(broker: Broker) -> dict[str, str]:
    """The checkpoint files of a broker: path, which begins with its directory, and text.

    Where there is one directory, the paths are those in it.
    """
    several = broker.settings.log_dirs
    named = several if len(several) > 1 else ()
    first = named[0] if named else ""
    by_directory: dict[str, list[Log]] = {name: [] for name in named}
    for log in _logs(broker):
        by_directory.setdefault(log.directory or first, []).append(log)
    found = {}
    for directory, logs in by_directory.items():
        if (directory or broker.log_dirs[0]) in broker.failed_dirs:
            continue
        prefix = f"{directory}/" if directory else ""
        for name, text in _files_of(broker, logs).items():
            found[prefix + name] = text
    return found


def _files_of(broker: Broker, logs: list[Log]) -> dict[str, str]:
    """The files of one directory, by their names in it."""
    high_watermarks: Offsets = {_place(log): checkpoints.in_file(broker, log) for log in logs}
    ends: Offsets = {_place(log): log.log_end_offset for log in logs}
    starts: Offsets = {_place(log): log.log_start_offset for log in logs if log.log_start_offset}
    found = {
        checkpoint_files.HIGH_WATERMARKS: checkpoint_files.render(high_watermarks),
        checkpoint_files.RECOVERY_POINTS: checkpoint_files.render(ends),
        checkpoint_files.LOG_STARTS: checkpoint_files.render(starts),
        checkpoint_files.CLEANED: "",
    }
    for log in logs:
        epochs = checkpoint_files.render_epochs(_epochs(broker, log))
        found[f"{log.topic}-{log.partition}/{checkpoint_files.LEADER_EPOCHS}"] = epochs
    return found


def _epochs(broker: Broker, log: Log) -> Epochs:
    """Where leader epochs begin; the leader has its own though it has not written in it yet."""
    epochs = {}
    start = log.log_start_offset
    for former in log.former_epochs:
        epochs[former.epoch] = start
        start = former.end_offset
    topic = broker.topic_by_id(log.topic_id)
    leads = topic is not None and topic.partitions[log.partition].leader == broker.id
    if leads or log.log_end_offset > start:
        epochs[log.leader_epoch] = start
    return epochs


def _place(log: Log) -> tuple[str, int]:
    return log.topic, log.partition


def logs_of(broker: Broker) -> list[Log]:
    """The logs that a broker holds, those in failed directories, too."""
    return [log for _, log in broker.tables.logs.items(f"{broker.id}/log/", Log)]


def _logs(broker: Broker) -> list[Log]:
    return sorted(logs_of(broker), key=_place)
