"""Rows about replication and lag, computed from several items.

Leaders know the progress of their followers; a follower's partitions belong to its fetcher threads.
The lag of a group is the leader's log end less the committed offset, so it is negative if an offset
is committed beyond the log end.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cell import overview
from brokertwin.state.cell.follower_sessions import FollowerSession
from brokertwin.state.cluster import image
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.settings import cluster_of
from brokertwin.state.core.tables import CellTables
from brokertwin.state.fetch.session_items import CachedFetchPartition
from brokertwin.state.logs.log import Log, log_key
from brokertwin.state.replication import fetchers, network
from brokertwin.state.replication.leader import Leadership

Row = dict[str, Any]
Columns = Mapping[str, bytes]
Cells = Mapping[str, Columns]
NO_REPLICA = -1


def replicas(columns: Columns) -> Iterator[Row]:
    """Yield the followers of each partition as its leader knows them."""
    tables = CellTables(columns)
    for key in tables.replication.keys(""):
        broker, part, *place = key.split("/")
        leadership = tables.replication.get(key, Leadership) if part == "leading" else None
        log = tables.logs.get("/".join([broker, "log", *place]), Log) if leadership else None
        if leadership is None or log is None:
            continue
        for replica, replica_state in leadership.replicas.items():
            has_fetched = replica_state.log_end_offset >= 0
            yield {
                "broker": int(broker),
                "topic": log.topic,
                "partition": log.partition,
                "replica": replica,
                "isInSync": replica in leadership.isr,
                "logEndOffset": replica_state.log_end_offset,
                "lag": log.log_end_offset - replica_state.log_end_offset if has_fetched else None,
                "lastFetchTimestamp": replica_state.last_fetch_time or -1,
                "lastCaughtUpTimestamp": replica_state.last_caught_up or -1,
            }


def fetched(columns: Columns) -> Iterator[Row]:
    """Yield the partitions that each running broker copies, with their fetcher threads."""
    tables = CellTables(columns)
    brokers = {int(key.split("/", 1)[0]) for key in tables.logs.keys("")}
    threads = {
        (session.follower, session.leader, place): fetchers.thread_name(
            session.fetcher, session.leader
        )
        for session in _follower_sessions(tables)
        for place in session.places
    }
    for broker in brokers:
        if network.is_stopped(tables.cluster, broker):
            continue
        for topic in image.all_topics(tables.of(broker)):
            for number, partition in enumerate(topic.partitions):
                log = tables.logs.get(log_key(broker, topic.topic_id, number), Log)
                if log is None or partition.leader in (broker, NO_REPLICA):
                    continue
                place = (topic.topic_id, number)
                yield {
                    "broker": broker,
                    "thread": threads.get((broker, partition.leader, place), ""),
                    "leader": partition.leader,
                    "topic": topic.name,
                    "partition": number,
                    "fetchOffset": log.log_end_offset,
                    "leaderEpoch": partition.leader_epoch,
                }


class _FollowerSession(NamedTuple):
    """A fetch session of a follower's thread, and its partitions."""

    leader: int
    follower: int
    fetcher: int
    session_id: int
    places: list[tuple[Uuid, int]]


def _follower_sessions(tables: CellTables) -> Iterator[_FollowerSession]:
    table = tables.fetch_sessions
    for key in table.keys(""):
        leader, part, *rest = key.split("/")
        session = table.get(key, FollowerSession) if part == "follower" else None
        if session is not None:
            prefix = f"{leader}/cached/{session.session_id}/"
            cached = [each.requested for _, each in table.items(prefix, CachedFetchPartition)]
            places = [(each.topic_id, each.partition) for each in cached]
            follower, fetcher = map(int, rest)
            yield _FollowerSession(int(leader), follower, fetcher, session.session_id, places)


def sent_high_watermarks(columns: Columns) -> dict[tuple[int, int, Uuid, int], int]:
    """Return the high watermarks that leaders have sent to followers.

    By leader, session id, topic id and partition.
    """
    tables, high_watermarks = CellTables(columns), {}
    for session in _follower_sessions(tables):
        for topic_id, partition in session.places:
            key = f"{session.leader}/leading/{topic_id}/{partition}"
            leadership = tables.replication.get(key, Leadership)
            replica = leadership.replicas.get(session.follower) if leadership else None
            if replica is not None:
                place = (session.leader, session.session_id, topic_id, partition)
                high_watermarks[place] = replica.sent_high_watermark
    return high_watermarks


def log_ends(cells: Cells, without_ends: Collection[str] = ()) -> dict[tuple[str, str, int], int]:
    """Return the leader's log end of each partition, by cluster, topic and number.

    `without_ends` are names or ids of topics whose log ends are not known.
    """
    clusters: dict[str, list[CellTables]] = {}
    for cell, columns in cells.items():
        clusters.setdefault(cluster_of(cell), []).append(CellTables(columns))
    names = {
        topic.topic_id: topic.name
        for tables in clusters.values()
        for each in tables
        for topic in image.all_topics(each.of(CONTROLLER))
        if without_ends
    }
    unknown = {names.get(each, each) for each in without_ends}
    return {
        (cluster, row["topic"], row["partition"]): row["logEndOffset"]
        for cluster, tables in clusters.items()
        for row in overview.partitions(tables)
        if row["logEndOffset"] != overview.NONE and row["topic"] not in unknown
    }


def add_lags(rows: Sequence[Row], cells: Cells, without_ends: Collection[str] = ()) -> None:
    """Add `lag` to rows of offsets; None if the log end is unknown.

    It is unknown if the partition has no leader or was deleted, and in `without_ends` topics.
    """
    ends = log_ends(cells, without_ends) if rows else {}
    for row in rows:
        end = ends.get((cluster_of(row["cell"]), row["topic"], row["partition"]))
        row["lag"] = None if end is None else end - row["committedOffset"]


def add_group_lags(groups: Sequence[Row], offsets: Sequence[Row]) -> None:
    """Add sum and minimum of the lags to rows of groups; None without offsets."""
    lags: dict[tuple[str, str], list[int]] = {}
    for row in offsets:
        if row["lag"] is not None:
            lags.setdefault((cluster_of(row["cell"]), row["groupId"]), []).append(row["lag"])
    for group in groups:
        group_lags = lags.get((cluster_of(group["cell"]), group["groupId"]), [])
        group["lag"] = sum(group_lags) if group_lags else None
        group["lowestLag"] = min(group_lags, default=None)
