"""A broker's log directories: placement of logs, and checkpoint files.

Source: seed 004; `LogManager.nextLogDirs`, `checkpointRecoveryOffsetsInDir`, `checkpointLogStart-
OffsetsInDir`, `ReplicaManager.checkpointHighWatermarks`, `LeaderEpochFileCache` in Kafka. A new log
is placed in the directory requested by AlterReplicaLogDirs, else in the first of those with the
fewest logs. Files of each directory:

    replication-offset-checkpoint      high watermarks at the last write (`checkpoints.py`)
    recovery-point-offset-checkpoint   log ends, because committed state is stored
    log-start-offset-checkpoint        log starts above 0
    cleaner-offset-checkpoint          no entries
    <topic>-<n>/leader-epoch-checkpoint

Requested directories are a volatile item of the table `replication`, `<broker>/wished-dirs`. A
failed directory (`directories.py`) gets no logs and has no files.
"""

from collections import Counter

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.records import LogPlaced
from brokertwin.state.logs import checkpoint_files
from brokertwin.state.logs.checkpoint_files import Epochs, Offsets
from brokertwin.state.logs.log import Log
from brokertwin.state.replication import checkpoints

REQUESTED_DIRS_MAX = 1000
"""Requested directories of future logs; beyond this number the oldest is dropped."""


class RequestedDirs(msgspec.Struct):
    """Directories of future logs by `<topic>-<partition>`, the oldest request first."""

    paths: dict[str, str]


def directory_of(broker: Broker, log: Log) -> str:
    return log.directory or broker.log_dirs[0]


def request_directory(broker: Broker, topic: str, partition: int, path: str) -> None:
    """Request a directory for a log that does not exist yet."""
    paths = _requests(broker)
    paths.pop(f"{topic}-{partition}", None)
    paths[f"{topic}-{partition}"] = path
    if len(paths) > REQUESTED_DIRS_MAX:
        del paths[next(iter(paths))]
    _store_requests(broker, paths)


def _store_requests(broker: Broker, paths: dict[str, str]) -> None:
    if paths:
        broker.tables.replication.put(_requests_key(broker.id), RequestedDirs(paths))
    else:
        broker.tables.replication.drop(_requests_key(broker.id))


def _requests(broker: Broker) -> dict[str, str]:
    requests = broker.tables.replication.get(_requests_key(broker.id), RequestedDirs)
    return dict(requests.paths) if requests is not None else {}


def _requests_key(broker: int) -> str:
    return f"{broker}/wished-dirs"


def without_place(broker: Broker, topic_id: Uuid) -> frozenset[int]:
    """Partitions of a topic whose logs were created when there was one directory, the first.

    Such logs have no directory stored. With several directories a log lacks it until it is placed.
    """
    topic = broker.topic_by_id(topic_id)
    if len(broker.settings.log_dirs) < 2 or topic is None:
        return frozenset()
    logs = (broker.held_log(topic_id, number) for number in range(len(topic.partitions)))
    return frozenset(log.partition for log in logs if log is not None and not log.directory)


def placed(broker: Broker, topic_id: Uuid, older: frozenset[int] = frozenset()) -> list[LogPlaced]:
    """Place the logs of a topic that have no directory; this completes requests for them.

    `older` logs existed before: they stay in the first directory, even if it has failed.
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
    requests = _requests(broker)
    result = []
    for partition in range(len(topic.partitions)):
        log = broker.held_log(topic_id, partition)
        if log is None or log.directory:
            continue
        directory = several[0]
        if partition not in older:
            fewest = min(there, key=counts.__getitem__)
            requested = requests.pop(f"{topic.name}-{partition}", fewest)
            directory = requested if requested in there else fewest
            counts[directory] += 1
        result.append(LogPlaced(topic_id, partition, directory))
    if result and requests != _requests(broker):
        _store_requests(broker, requests)
    return result


def files(broker: Broker) -> dict[str, str]:
    """A broker's checkpoint files: path, which starts with the directory, and text.

    With one directory, paths are relative to it.
    """
    several = broker.settings.log_dirs
    named = several if len(several) > 1 else ()
    first = named[0] if named else ""
    by_directory: dict[str, list[Log]] = {name: [] for name in named}
    for log in _logs(broker):
        by_directory.setdefault(log.directory or first, []).append(log)
    result = {}
    for directory, logs in by_directory.items():
        if (directory or broker.log_dirs[0]) in broker.failed_dirs:
            continue
        prefix = f"{directory}/" if directory else ""
        for name, text in _files_of(broker, logs).items():
            result[prefix + name] = text
    return result


def _files_of(broker: Broker, logs: list[Log]) -> dict[str, str]:
    """Files of one directory, by name."""
    high_watermarks: Offsets = {_place(log): checkpoints.in_file(broker, log) for log in logs}
    ends: Offsets = {_place(log): log.log_end_offset for log in logs}
    starts: Offsets = {_place(log): log.log_start_offset for log in logs if log.log_start_offset}
    files = {
        checkpoint_files.HIGH_WATERMARKS: checkpoint_files.render(high_watermarks),
        checkpoint_files.RECOVERY_POINTS: checkpoint_files.render(ends),
        checkpoint_files.LOG_STARTS: checkpoint_files.render(starts),
        checkpoint_files.CLEANED: "",
    }
    for log in logs:
        epochs = checkpoint_files.render_epochs(_epochs(broker, log))
        files[f"{log.topic}-{log.partition}/{checkpoint_files.LEADER_EPOCHS}"] = epochs
    return files


def _epochs(broker: Broker, log: Log) -> Epochs:
    """Start offsets of leader epochs; the leader has its own even without records in it."""
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
    """A broker's logs, including those in failed directories."""
    return [log for _, log in broker.tables.logs.items(f"{broker.id}/log/", Log)]


def _logs(broker: Broker) -> list[Log]:
    return sorted(logs_of(broker), key=_place)
