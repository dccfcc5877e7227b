"""Two days of clients that come and go, some each hour: expired items are removed, kind by kind.

Clients never return. So on the second day the number of items of each kind is the number added in
the kind's lifetime, within a check's interval. Kinds that are not named have as many items as
before the first client. When no client has come for long enough, the state equals the initial one.
"""

from collections import Counter
from typing import Any

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.state.cell import check
from brokertwin.state.core.tables import TABLE_NAMES
from brokertwin.state.logs.log import Log
from tests.support.machine import header
from tests.support.streams_groups import NO_TASKS, PASSING
from tests.support.transactions import TransactionBench

HOUR, MINUTE = 3_600_000, 60_000
HOURS, SILENT_HOURS = 48, 27
MANY = 2
"""Number of new clients of each kind in an hour."""

SLOTS = 10
SETTINGS: dict[str, Any] = {
    "offsets_retention_minutes": 24 * 60,
    "transactional_id_expiration_ms": 24 * HOUR,
    "max_incremental_fetch_session_cache_slots": SLOTS,
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "given": {"log.retention.ms": str(HOUR), "log.roll.ms": str(10 * MINUTE)},
}
"""The defaults are (seven days, 1,000, 50); producer ids and delegation tokens live for a day
anyway.
"""

OF_A_DAY = (24 * MANY, 26 * MANY)
LIVES = {
    "producers/producer": (3 * OF_A_DAY[0], 3 * OF_A_DAY[1]),
    "transactions/id": OF_A_DAY,
    "groups/offset": OF_A_DAY,
    "groups/committed": OF_A_DAY,
    "groups/group": OF_A_DAY,
    "metadata/token": (2 * OF_A_DAY[0], 2 * OF_A_DAY[1]),
    "metadata/token-digest": (2 * OF_A_DAY[0], 2 * OF_A_DAY[1]),
    "quotas/rate": (0, 4 * MANY),
    "quotas/bucket": (0, 2 * MANY),
    "client_instances/client-instance": (0, MANY),
    "shares/share-partition": (0, MANY),
    "fetch_sessions/session": (1, SLOTS),
    "fetch_sessions/cached": (1, SLOTS),
    "fetch_sessions/active": (1, SLOTS),
    "fetch_sessions/members": (1, SLOTS),
    "fetch_sessions/shard": (0, 8),
    "fetch_sessions/evictions": (1, 1),
    "logs/chunk": (0, 6),
    "logs/aborted": (0, 1),
    "logs/rolled": (0, 2),
}
"""Limits of additional items of a kind at any hour of the second day.

The controller and the broker know each token. Every client writes to three permanent topics, with a
separate producer id for each.
"""

STAY = {
    *(f"fetch_sessions/{kind}" for kind in ("session", "cached", "active", "members", "shard")),
    "fetch_sessions/evictions",
    "logs/chunk",
}
"""Unclosed sessions stay while there is room, as in Kafka, and their counts; a log's last
segment stays."""


OFFSETS_KEPT = 6 * MANY
"""Records in a log, including transaction markers: those of three hours, one of them retained."""


class Clients(TransactionBench):
    """A broker and the clients of an hour."""

    def __init__(self) -> None:
        super().__init__(**SETTINGS)
        self.topic("hours")
        self.topic("cleaned", cleanup_policy="compact,delete")
        quotas = {"consumer_byte_rate": 1e9, "producer_byte_rate": 1e9}
        self._quota("client-id", quotas)
        self._quota("user", {"controller_mutation_rate": 1e6})
        self.share_groups: list[str] = []
        self.is_checked = False

    def _quota(self, kind: str, quotas: dict[str, float]) -> None:
        ops = [{"key": key, "value": value} for key, value in quotas.items()]
        response = self.request("ALTER_CLIENT_QUOTAS", 1, entityType=kind, entityName=None, ops=ops)
        assert response["entries"][0]["errorCode"] == 0, response

    def come(self, name: str) -> None:
        self.produce_as(name)
        self.join_groups(name)
        self.share(name)
        self.read(name)
        self.administer(name)

    def produce_as(self, name: str) -> None:
        """Idempotent producers, and a transactional one of which every second ends nothing."""
        self.produce_to("hours")
        self.produce_to("cleaned")
        holder = self.init(name)
        assert self.add(name, holder, a=[0]) == {"a": [0]}
        assert self.produce(name, holder, 0)[0] == 0
        if name.endswith("0"):
            assert self.end(name, holder)["errorCode"] == 0

    def produce_to(self, topic: str) -> None:
        reported = self.request("INIT_PRODUCER_ID", 4, transactionalId=None, transactionTimeoutMs=0)
        response = self.append(
            topic, header(1, reported["producerId"], 0, 0, maxTimestamp=self.now)
        )
        assert response["errorCode"] == 0, response

    def join_groups(self, name: str) -> None:
        """Join members that disappear, look up an unused id, and commit an offset."""
        place = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
        response = self.request("OFFSET_COMMIT", 8, place, groupId=f"o-{name}", name="hours")
        assert response["topics"][0]["partitions"][0]["errorCode"] == 0, response
        classic = {"groupId": f"c-{name}", "sessionTimeoutMs": 45_000, "memberId": ""}
        classic |= {"rebalanceTimeoutMs": MINUTE, "protocolType": "consumer"}
        classic["protocols"] = [{"name": "range", "metadata": "AAAA"}]
        self.send("JOIN_GROUP", 3, classic)
        self.send("JOIN_GROUP", 9, classic, groupId=f"i-{name}")
        modern = {"memberId": name, "memberEpoch": 0, "rebalanceTimeoutMs": MINUTE}
        subscribed = {"subscribedTopicNames": ["hours"]}
        consumer = {**modern, **subscribed, "groupId": f"k-{name}", "topicPartitions": []}
        assert self.request("CONSUMER_GROUP_HEARTBEAT", 1, consumer)["errorCode"] == 0
        streams = {**modern, **NO_TASKS, "groupId": f"s-{name}", "topology": PASSING}
        streams |= {"processId": name, "clientTags": [], "endpointInformationEpoch": 0}
        assert self.request("STREAMS_GROUP_HEARTBEAT", 0, streams)["errorCode"] == 0

    def share(self, name: str) -> None:
        """A member of a share group, whose connection ends."""
        group = {"groupId": f"h-{name}", "memberId": name}
        fields = {**group, "memberEpoch": 0, "subscribedTopicNames": ["hours"]}
        assert self.request("SHARE_GROUP_HEARTBEAT", 1, fields)["errorCode"] == 0
        topic = self.topic_id("hours")
        place = {"partitionIndex": 0, "acknowledgementBatches": []}
        fetch = {**group, "shareSessionEpoch": 0, "maxWaitMs": 0, "minBytes": 0, "maxRecords": 1}
        fetch |= {"batchSize": 1, "topics": [{"topicId": topic, "partitions": [place]}]}
        fetch["forgottenTopicsData"] = []
        response = self.request("SHARE_FETCH", 2, fetch, connection=f"h-{name}")
        assert response["errorCode"] == 0, response
        self.disconnect(f"h-{name}")
        self.share_groups.append(f"h-{name}")

    def read(self, name: str) -> None:
        """A session that is left, one that is closed, a fetch that waits; wanted metrics."""
        partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100}
        fetch = {"sessionEpoch": 0, "maxWaitMs": 0, "maxBytes": 100, "minBytes": 0}
        fetch["topics"] = [{"topic": "hours", "partitions": [partition]}]
        who = {"requestApiKey": 1, "requestApiVersion": 12, "clientId": name}
        for _ in range(2):
            response = self.request("FETCH", 12, fetch, requestHeader=who)
        close = {**fetch, "sessionId": response["sessionId"], "sessionEpoch": -1, "topics": []}
        self.request("FETCH", 12, close, requestHeader=who)
        waits = {**fetch, "sessionEpoch": -1, "maxWaitMs": 500, "minBytes": 10_000}
        self.send("FETCH", 12, waits, requestHeader=who, connection=f"w-{name}")
        fields = {"clientInstanceId": ZERO_UUID}
        self.request("GET_TELEMETRY_SUBSCRIPTIONS", 0, fields, connection=f"m-{name}")
        if name.endswith("0"):
            self.disconnect(f"m-{name}")

    def administer(self, name: str) -> None:
        edge = {"isEnabled": True, "isAllowed": True, "tokenId": name, "digest": f"of {name}"}
        token = {"renewers": [], "maxLifetimeMs": -1, "edge": edge}
        response = self.request("CREATE_DELEGATION_TOKEN", 3, token, principal="User:alice")
        assert response["errorCode"] == 0, response
        topic = {"name": f"t-{name}", "numPartitions": 2, "replicationFactor": 1}
        who = {"principal": f"User:{name}"}
        self.request("CREATE_TOPICS", 7, topics=[topic], timeoutMs=MINUTE, **who)
        self.produce_to(f"t-{name}")
        topic = {"name": f"t-{name}", "topicId": ZERO_UUID}
        self.request("DELETE_TOPICS", 6, topics=[topic], timeoutMs=MINUTE, **who)

    def topic_id(self, name: str) -> str:
        response = self.request("METADATA", 12, name=name)
        return str(response["topics"][0]["topicId"])

    def pass_an_hour(self) -> None:
        """Time passes; share groups, which stay as in Kafka, are deleted at its end."""
        for _ in range(6):
            self.tick(10 * MINUTE)
        if self.share_groups:
            response = self.request("DELETE_GROUPS", 2, groupsNames=self.share_groups)
            assert {each["errorCode"] for each in response["results"]} == {0}, response
            self.share_groups.clear()
        assert check.check(self.cell) == []

    def items(self) -> Counter[str]:
        """How many items there are of each kind, as `quotas/rate`."""
        return Counter(kind_of(table, key) for table, key in self.keys())

    def keys(self) -> set[tuple[str, str]]:
        """Every item: its table and key."""
        return {(name, key) for name in TABLE_NAMES for key in self.cell.tables[name].keys("")}

    def offsets_kept(self) -> int:
        items = self.cell.tables.logs.items("1/log/", Log)
        return max(log.log_end_offset - log.log_start_offset for _, log in items)


def kind_of(table: str, key: str) -> str:
    """Return the kind of an item of a machine, or of one stored by a request's id."""
    first, _, rest = key.partition("/")
    return f"{table}/{first if table == 'pending' else rest.partition('/')[0]}"


def two_days() -> None:
    """Raises AssertionError where something is not forgotten, or too early."""
    bench = Clients()
    bench.come("first0")
    bench.pass_an_hour()
    for _ in range(SILENT_HOURS):
        bench.pass_an_hour()
    begin, before = bench.keys(), bench.items()
    for hour in range(HOURS):
        for number in range(MANY):
            bench.come(f"{hour}-{number}")
        bench.pass_an_hour()
        if hour > HOURS // 2:
            found = bench.items()
            for kind in found.keys() | LIVES:
                more = found[kind] - before[kind]
                least, most = LIVES.get(kind, (0, 0))
                assert least <= more <= most, f"hour {hour}: {more} of {kind}"
            kept = bench.offsets_kept()
            assert 0 < kept <= OFFSETS_KEPT, f"hour {hour}: {kept} offsets of a log"
    for _ in range(SILENT_HOURS):
        bench.pass_an_hour()
    end = bench.keys()
    assert {each for each in end ^ begin if kind_of(*each) not in STAY} == set()
    assert bench.items()["fetch_sessions/session"] <= SLOTS


def test_expired_items_are_removed_within_two_days() -> None:
    two_days()
