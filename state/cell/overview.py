"""Overview of a cluster from outside: its brokers, and each partition with its replicas.

For people who stop brokers and watch; no broker of Kafka knows all of it at once. It is read from
the tables of all cells. The controller's image has leaders and in-sync replicas; each broker's logs
have their ends. A lag is the number of offsets that a replica's log ends before the leader's log.
It can be negative after an unclean election.
"""

from collections.abc import Sequence
from typing import Any

from brokertwin.state.cluster import failed_dirs, image
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.tables import CellTables, Table
from brokertwin.state.logs import log
from brokertwin.state.logs.log import Log
from brokertwin.state.replication import network

Row = dict[str, Any]
NONE = -1

RUNNING, STOPPED, STARTING = "running", "stopped", "starting"
ISOLATED, SEVERED = "isolated", "severed"


def brokers(cells: Sequence[CellTables], ids: Sequence[int]) -> list[Row]:
    """Return the brokers of a cluster with their states and numbers of partitions."""
    partitions = [partition for topic in _topics(cells) for partition in topic.partitions]
    return [
        {
            "broker": broker,
            "state": _state_of(cells, broker),
            "leads": sum(partition.leader == broker for partition in partitions),
            "replicas": sum(broker in partition.replicas for partition in partitions),
            "inSync": sum(broker in partition.isr for partition in partitions),
        }
        for broker in ids
    ]


def partitions(cells: Sequence[CellTables]) -> list[Row]:
    """Return the partitions of a cluster, by topic and number.

    `logs` has a row for each replica with a log, `lag` is the greatest lag among them. The leader's
    `logEndOffset` and `highWatermark` without a leader: -1.
    """
    return [
        _partition(cells, topic, number, partition)
        for topic in _topics(cells)
        for number, partition in enumerate(topic.partitions)
    ]


def _partition(cells: Sequence[CellTables], topic: Topic, number: int, partition: Partition) -> Row:
    logs = {
        broker: log
        for broker in partition.replicas
        if (log := _log(cells, broker, topic, number)) is not None
    }
    led = logs.get(partition.leader)
    end = led.log_end_offset if led is not None else NONE
    rows = [_replica(broker, each, end) for broker, each in logs.items()]
    return {
        "topic": topic.name,
        "partition": number,
        "leader": partition.leader,
        "leaderEpoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "addingReplicas": partition.adding_replicas,
        "removingReplicas": partition.removing_replicas,
        "isr": partition.isr,
        "logEndOffset": end,
        "highWatermark": led.high_watermark if led is not None else NONE,
        "lag": max((row["lag"] for row in rows if row["lag"] is not None), default=None),
        "logs": rows,
    }


def _replica(broker: int, log: Log, leaders_end: int) -> Row:
    return {
        "broker": broker,
        "logEndOffset": log.log_end_offset,
        "highWatermark": log.high_watermark,
        "lag": leaders_end - log.log_end_offset if leaders_end != NONE else None,
    }


def _log(cells: Sequence[CellTables], broker: int, topic: Topic, number: int) -> Log | None:
    key = log.log_key(broker, topic.topic_id, number)
    return next((tables.logs.get(key, Log) for tables in cells if key in tables.logs), None)


def _is_starting(table: Table, broker: int) -> bool:
    return network.is_starting(table, broker) or network.registering_by(table, broker) > 0


def _state_of(cells: Sequence[CellTables], broker: int) -> str:
    states = {
        STARTING: _is_starting,
        STOPPED: network.is_stopped,
        SEVERED: network.is_severed,
        ISOLATED: network.is_isolated,
    }
    for state, is_so in states.items():
        if any(is_so(tables.cluster, broker) for tables in cells):
            return state
    failed = [path for tables in cells for path in failed_dirs.of(tables.of(broker))]
    return f"{RUNNING}, without {', '.join(failed)}" if failed else RUNNING


def _topics(cells: Sequence[CellTables]) -> list[Topic]:
    return [topic for tables in cells for topic in image.all_topics(tables.of(CONTROLLER))]
