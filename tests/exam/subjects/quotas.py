"""Quotas of clients: what throttles a client, and what it then receives.

Each scenario has a client id of its own, so it throttles no other client.
"""

from typing import Any

from tests.exam.author import Author, batch, repeat, text, until, view
from tests.exam.script import Script, fetch_body, produce_body

QUOTAS = Author(
    "quotas",
    "Quotas and throttling",
    source="ClientQuotaManager",
    kip="KIP-219",
    limit_s=60,
    settings={"quota.window.num": "11", "quota.window.size.seconds": "1"},
)
SHOWN = view(throttle=True, without=["baseOffset"])
"""A Produce that is repeated until it is throttled may have been appended before."""

ON = {"on": "c", "client": "c"}
"""Connection with the client id of the quota."""

THROTTLED = until("throttleTimeMs", 0, is_not=True)


def quota(s: Script, label: str = "", **values: float | None) -> None:
    """Set quotas of the client id; None removes one."""
    operations = [
        {"key": key, "value": value or 0, "remove": value is None} for key, value in values.items()
    ]
    entity = [{"entityType": "client-id", "entityName": s.name("c")}]
    body = {"entries": [{"entity": entity, "ops": operations}], "validateOnly": False}
    s.call("AlterClientQuotas", 1, body, label)


def produce(s: Script, topic: Any, label: str = "", version: int = 9, **more: Any) -> Any:
    """Produce 20 kB."""
    body = produce_body(topic, _big(), version=version)
    return s.call("Produce", version, body, label, view=SHOWN, **ON, **more)


def _big() -> Any:
    return batch(values=[text(repeat("x", 20_000))])


def ready(s: Script, topic: Any, **values: float) -> None:
    """Set quotas and wait until a large Produce is throttled."""
    quota(s, **values)
    produce(s, topic, until=THROTTLED)


@QUOTAS
def quota_produce(s: Script) -> None:
    """A client above producer_byte_rate is throttled; its records are appended at once."""
    t = s.topic()
    quota(s, "AlterClientQuotas", producer_byte_rate=1500)
    produce(s, t, "above the quota", until=THROTTLED)
    kept = until("topics.0.partitions.0.offset", 0, is_not=True)
    wanted = {"name": t, "partitions": [{"partitionIndex": 0, "timestamp": -1}]}
    shown = view(without=["offset"])
    body = {"replicaId": -1, "topics": [wanted]}
    s.call("ListOffsets", 7, body, "the records are there", until=kept, view=shown)


@QUOTAS
def quota_mutes_the_connection(s: Script) -> None:
    """A throttled connection is not read until the throttle time has passed."""
    t = s.topic()
    ready(s, t, producer_byte_rate=1000)
    s.send("ApiVersions", 0, {}, "c")
    s.silent("the next request waits", "c", 300)


@QUOTAS
def quota_of_another_connection(s: Script) -> None:
    """A new connection of a throttled client id is throttled by its next Produce, too."""
    t = s.topic()
    ready(s, t, producer_byte_rate=1000)
    body = produce_body(t, batch(1))
    s.call("Produce", 9, body, "second connection", on="d", client="c", view=SHOWN)


@QUOTAS
def quota_of_other_client(s: Script) -> None:
    """The quota of a client id does not throttle another one."""
    t = s.topic()
    ready(s, t, producer_byte_rate=1000)
    body = produce_body(t, _big())
    s.call("Produce", 9, body, "other client id", on="d", client="d", view=SHOWN)


@QUOTAS
def quota_below(s: Script) -> None:
    """A client below its quota is not throttled."""
    t = s.topic()
    quota(s, producer_byte_rate=100_000_000)
    produce(s, t, "below the quota")


@QUOTAS
def quota_of_old_produce(s: Script) -> None:
    """Produce v3 reports the throttle time, too."""
    t = s.topic()
    quota(s, producer_byte_rate=1500)
    produce(s, t, "v3", 3, until=THROTTLED)


@QUOTAS
def quota_removed(s: Script) -> None:
    """A quota that is removed no longer throttles."""
    t = s.topic()
    quota(s, producer_byte_rate=5000)
    quota(s, "removed", producer_byte_rate=None)
    for number in range(3):
        produce(s, t, f"Produce {number + 1}")


@QUOTAS
def quota_fetch(s: Script) -> None:
    """A client above consumer_byte_rate gets an empty response with a throttle time."""
    t = s.topic()
    s.produce(t, _big())
    quota(s, consumer_byte_rate=1500)
    body = fetch_body([(t, [(0, 0)])])
    s.call("Fetch", 12, body, "throttled", until=THROTTLED, view=SHOWN, **ON)


@QUOTAS
def quota_fetch_of_other_client(s: Script) -> None:
    """consumer_byte_rate of a client id does not throttle the fetches of another one."""
    t = s.topic()
    s.produce(t, _big())
    quota(s, consumer_byte_rate=1500)
    body = fetch_body([(t, [(0, 0)])])
    s.call("Fetch", 12, body, until=THROTTLED, **ON)
    shown = view(throttle=True, only=["errorCode", "highWatermark"], without=["records"])
    s.call("Fetch", 12, body, "other client id", on="d", client="d", view=shown)


@QUOTAS(kip="KIP-124", source="ClientRequestQuotaManager")
def quota_requests(s: Script) -> None:
    """A client above request_percentage is throttled, whatever it requests."""
    quota(s, request_percentage=0.0001)
    shown = view(throttle=True, only=["errorCode"], without=["brokers", "topics"])
    body = {"topics": [], "allowAutoTopicCreation": False}
    s.call("Metadata", 12, body, "Metadata", until=THROTTLED, view=shown, **ON)


@QUOTAS(kip="KIP-124", source="ClientRequestQuotaManager")
def quota_requests_of_groups(s: Script) -> None:
    """request_percentage throttles heartbeats, too."""
    g = s.group()
    quota(s, request_percentage=0.0001)
    body = {"groupId": g, "generationId": 1, "memberId": "m"}
    s.call("Heartbeat", 4, body, "Heartbeat", until=THROTTLED, view=SHOWN, **ON)


def _topics(s: Script, *names: str) -> dict[str, Any]:
    made = [{"name": s.name(name), "numPartitions": 3, "replicationFactor": 1} for name in names]
    return {"topics": made, "timeoutMs": 10_000}


@QUOTAS(kip="KIP-599", source="ControllerMutationQuotaManager")
def quota_mutations(s: Script) -> None:
    """CreateTopics v6 above controller_mutation_rate is refused, and creates nothing."""
    quota(s, controller_mutation_rate=0.2)
    shown = view(throttle=True, without=["errorMessage", "topicId", "configs"])
    s.call("CreateTopics", 6, _topics(s, "a"), "first", view=shown, **ON)
    refused = until("topics.0.errorCode", 89)
    body = _topics(s, "b")
    s.call(
        "CreateTopics", 6, body, "above the quota", on="d", client="c", view=shown, until=refused
    )
    names = [{"name": s.name("a")}, {"name": s.name("b")}]
    errors = view(only=["errorCode", "name"], without=["brokers", "partitions"])
    s.metadata(names, "the first topic alone exists", view=errors)


@QUOTAS(kip="KIP-599", source="ControllerMutationQuotaManager")
def quota_mutations_of_old_version(s: Script) -> None:
    """CreateTopics v5 above controller_mutation_rate succeeds and is throttled."""
    quota(s, controller_mutation_rate=0.2)
    shown = view(throttle=True, without=["errorMessage", "configs"])
    s.call("CreateTopics", 5, _topics(s, "a"), "first", view=shown, **ON)
    s.call("CreateTopics", 5, _topics(s, "b"), "second", view=shown, on="d", client="c")


@QUOTAS(kip="KIP-599", source="ControllerMutationQuotaManager")
def quota_mutations_by_partitions(s: Script) -> None:
    """CreatePartitions v3 above controller_mutation_rate is refused."""
    s.topic("a")
    quota(s, controller_mutation_rate=0.2)
    shown = view(throttle=True, without=["errorMessage"])
    first = {
        "topics": [{"name": s.name("a"), "count": 4, "assignments": None}],
        "timeoutMs": 10_000,
    }
    s.call("CreatePartitions", 3, first, "first", view=shown, **ON)
    more = {"topics": [{"name": s.name("a"), "count": 9, "assignments": None}], "timeoutMs": 10_000}
    refused = until("results.0.errorCode", 89)
    s.call(
        "CreatePartitions",
        3,
        more,
        "above the quota",
        on="d",
        client="c",
        view=shown,
        until=refused,
    )
