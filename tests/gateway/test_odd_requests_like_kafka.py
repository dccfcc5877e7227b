"""Odd requests: compare the responses with a real broker's.

Each of them once had another response from our broker: repeated names, empty lists, numbers out of
range. The order of lists is not compared.
"""

import random
from base64 import b64encode
from itertools import permutations, product
from typing import Any

from brokertwin.gateway.edge_fields import Address
from tests.support.batches import numbered
from tests.support.goldens import WRITTEN_MS
from tests.support.patience import wait_until
from tests.support.walk_sides import ZERO, Sides, Step, both_sides

TOPICS = {"odd-0": 2, "odd-1": 1, "odd-many": 20}
FIRST, SECOND, MANY = TOPICS
NOWHERE = "odd-missing"
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
UNKNOWN_CHANGE = 4
LONGEST = "x" * 32_767
"""The longest text on the wire; error messages about it are longer."""

OWN = ("brokers", "clusterId", "controllerId")
NO_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SHARING = "odd-sharing"
"""A share group of this test only."""

UNKNOWN, MADE = f"{SHARING}-unheard", f"{SHARING}-made"


def quotas(*entries: tuple[dict[str, str | None], list[tuple[str, float]]]) -> Step:
    items = [
        {
            "entity": [{"entityType": kind, "entityName": name} for kind, name in entity.items()],
            "ops": [{"key": key, "value": value, "remove": False} for key, value in values],
        }
        for entity, values in entries
    ]
    return Step("ALTER_CLIENT_QUOTAS", 1, {"entries": items, "validateOnly": True})


def twice(kind: str, *names: str) -> Step:
    step = quotas(({}, [("producer_byte_rate", 1.0)]))
    step.body["entries"][0]["entity"] = [{"entityType": kind, "entityName": n} for n in names]
    return step


def filtered(*components: tuple[str, int, str | None]) -> Step:
    items = [{"entityType": e, "matchType": kind, "match": name} for e, kind, name in components]
    return Step("DESCRIBE_CLIENT_QUOTAS", 1, {"components": items, "strict": False})


RATE, FASTER, WRONG = ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0), ("x", 1.0)
QUOTAS = [
    quotas(({"user": "a", "client-id": "b"}, [RATE, FASTER])),
    quotas(({"user": "a"}, [RATE]), ({"user": "a"}, [FASTER]), ({"user": "b"}, [RATE])),
    quotas(({"user": "a", "x": None}, [RATE, RATE])),
    twice("user", "a", "b"),
    twice("client-id", "b", ""),
    *(
        quotas((dict(zip(kinds, names, strict=True)), [RATE]))
        for kinds in (("ip", "user"), ("user", "x"), ("client-id", "x"), ("y", "x"))
        for names in product(("", "a"), repeat=2)
    ),
    quotas(({"user": "a"}, [("producer_byte_rate", -1.0), WRONG])),
    quotas(({"user": "a"}, [WRONG, ("request_percentage", 0.0)])),
    *(filtered(("user", kind, name)) for kind, name in ((0, None), (1, ""), (2, "a"))),
    filtered(("ip", 2, None), ("client-id", 2, None)),
]


def page(names: list[str], cursor: tuple[str, int]) -> Step:
    body: dict[str, Any] = {"topics": [{"name": name} for name in names]}
    body |= {"responsePartitionLimit": 1}
    body |= {"cursor": {"topicName": cursor[0], "partitionIndex": cursor[1]}}
    return Step("DESCRIBE_TOPIC_PARTITIONS", 0, body)


def metadata(*topics: tuple[str, str | None]) -> Step:
    items = [{"topicId": ident, "name": name} for ident, name in topics]
    return Step("METADATA", 13, {"topics": items, "allowAutoTopicCreation": False})


KNOWN = f"id:{FIRST}"
LOOKS = [
    page([FIRST, NOWHERE, FIRST], (SECOND, 0)),
    page([FIRST, NOWHERE], (FIRST, -1)),
    page([], (FIRST, -1)),
    *(
        Step("DESCRIBE_CLUSTER", 2, {"endpointType": kind, "includeFencedBrokers": False})
        for kind in (0, 2, 3)
    ),
    Step("LIST_OFFSETS", 7, {"replicaId": -1, "topics": [{"name": FIRST, "partitions": []}]}),
    Step("DELETE_RECORDS", 2, {"topics": [{"name": FIRST, "partitions": []}], "timeoutMs": 100}),
    Step(
        "ALTER_REPLICA_LOG_DIRS",
        2,
        {"dirs": [{"path": "/none", "topics": [{"name": FIRST, "partitions": []}]}]},
    ),
]
NAMELESS = [
    metadata((ZERO, None), (KNOWN, "other"), (ZERO, SECOND)),
    metadata((KNOWN, None), (ZERO, None)),
]


def creation(*topics: dict[str, Any], timeout_ms: int = 5000) -> Step:
    new = {"numPartitions": 1, "replicationFactor": 1, "configs": []}
    items = [{"name": "odd-new", **new, **topic} for topic in topics]
    body = {"topics": items, "timeoutMs": timeout_ms, "validateOnly": True}
    return Step("CREATE_TOPICS", 7, body)


def with_configs(**configs: str | None) -> dict[str, Any]:
    return {"configs": [{"name": name, "value": value} for name, value in configs.items()]}


NULL_FIRST = [{"name": "segment.ms", "value": value} for value in (None, "5")]
GROWN = {"name": FIRST, "count": 5}
CREATIONS = [
    creation(with_configs(q1="1", foo="1", bar="1")),
    creation({"configs": NULL_FIRST}),
    creation({"configs": NULL_FIRST[::-1]}),
    creation({"numPartitions": 10_001}, {"name": "odd-other", "numPartitions": -2}),
    creation({}, {}, timeout_ms=0),
    creation({}, {}, {"name": "odd-other"}, timeout_ms=0),
    *(
        Step("CREATE_PARTITIONS", 3, {"topics": requested, "timeoutMs": 0, "validateOnly": True})
        for requested in ([GROWN, GROWN], [GROWN, GROWN, {"name": SECOND, "count": 5}])
    ),
]


def changes(*resources: tuple[int, str, list[tuple[str, int, str | None]]]) -> Step:
    items = [
        {
            "resourceType": kind,
            "resourceName": name,
            "configs": [
                {"name": key, "configOperation": change, "value": value}
                for key, change, value in configs
            ],
        }
        for kind, name, configs in resources
    ]
    return Step("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": items, "validateOnly": True})


ODD = (TOPIC, FIRST, [("retention.ms", UNKNOWN_CHANGE, "5")])
SETTINGS = [
    changes((TOPIC, FIRST, [(name, 0, "1") for name in ("no.such", "log.retention.ms", "zzz")])),
    changes((TOPIC, FIRST, [(name, 0, "1") for name in ("a", "b", "c", "zz", "B")])),
    changes(ODD, (METRICS, "m", [("interval.ms", 0, "500")]), (TOPIC, NOWHERE, [])),
    changes(ODD, (BROKER, "1", [("log.retention.ms", 0, "50000")])),
    changes(ODD, (BROKER, "1", [("log.retention.ms", 0, "x")]), (0, "x", [])),
    changes((BROKER, "1", [("log.retention.ms", UNKNOWN_CHANGE, "5")]), (TOPIC, FIRST, [])),
    changes((GROUP, "g", [("no.such", -1, "5")]), (TOPIC, FIRST, [("retention.ms", 0, None)])),
    changes((BROKER, "1", [("log.retention.ms", 0, LONGEST)])),
    *(
        changes(*resources)
        for other in (
            *((kind, "x", []) for kind in (0, 99, BROKER)),
            (BROKER, "1", [("log.retention.ms", 0, "x")]),
            (BROKER, "1", [("log.retention.ms", 0, "50000")]),
            (LOGGER, "1", [("no.such", 0, "INFO")]),
            (TOPIC, SECOND, [("retention.ms", 0, "5")]),
        )
        for resources in permutations([(TOPIC, FIRST, [("retention.ms", 0, LONGEST)]), other])
    ),
]


def produced(*topics: tuple[str, dict[int, bytes]], acks: int = 1) -> Step:
    items = [
        {
            "name": name,
            "partitionData": [
                {"index": n, "records": b64encode(r).decode()} for n, r in records.items()
            ],
        }
        for name, records in topics
    ]
    body = {"transactionalId": None, "acks": acks, "timeoutMs": 5000, "topicData": items}
    return Step("PRODUCE", 9, body)


def produced_below_7(*partitions: tuple[int, bytes]) -> Step:
    return produced((FIRST, dict(partitions)))._replace(version=6)


def joined(version: int, transactional_id: str, *topics: tuple[str, list[int]]) -> Step:
    items = [{"name": name, "partitions": numbers} for name, numbers in topics]
    request = {"transactionalId": transactional_id, "producerId": 1, "producerEpoch": 5}
    body = {"transactions": [{**request, "verifyOnly": False, "topics": items}]}
    return Step("ADD_PARTITIONS_TO_TXN", version, body)


def committed(version: int, topic: str, ident: str) -> Step:
    request = {"groupId": "odd", "generationIdOrMemberEpoch": -1, "memberId": ""}
    topics = [{"name": topic, "topicId": ident, "partitions": []}]
    return Step("OFFSET_COMMIT", version, {**request, "topics": topics})


RECORDS, ODD_RECORDS = numbered(1, time=WRITTEN_MS), numbered(1, time=WRITTEN_MS, magic=3)
UNKNOWN_CODEC = numbered(1, time=WRITTEN_MS, attributes=5)
COMMIT = {"transactionalId": "odd-nobody", "groupId": "odd", "producerId": 1, "producerEpoch": 5}
COMMIT |= {"generationId": -1, "memberId": "", "groupInstanceId": None}
EPOCHS = [{"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": n} for n in (-2, -9, -1)]
DATA = [
    produced((FIRST, {0: RECORDS, 1: ODD_RECORDS}), (NOWHERE, {0: RECORDS})),
    produced((FIRST, {0: RECORDS}), (SECOND, {0: RECORDS}), (NOWHERE, {}), (SECOND, {}), acks=2),
    produced((NOWHERE, {})),
    produced_below_7((0, RECORDS), (1, UNKNOWN_CODEC)),
    produced_below_7((0, RECORDS), (9, UNKNOWN_CODEC)),
    produced_below_7((0, numbered(1, time=WRITTEN_MS, attributes=4) + RECORDS)),
    *(
        Step("TXN_OFFSET_COMMIT", version, {**COMMIT, "topics": [{"name": n, "partitions": []}]})
        for version, n in ((2, NOWHERE), (3, NOWHERE), (3, FIRST))
    ),
    Step(
        "ADD_PARTITIONS_TO_TXN",
        3,
        {
            "v3AndBelowTransactionalId": "odd-nobody",
            "v3AndBelowProducerId": 1,
            "v3AndBelowProducerEpoch": 5,
            "v3AndBelowTopics": [{"name": FIRST, "partitions": [0, 1, 0]}] * 2,
        },
    ),
    *(joined(version, "", (FIRST, [0, 9]), (NOWHERE, [0])) for version in (4, 5)),
    Step("OFFSET_FOR_LEADER_EPOCH", 4, {"topics": [{"topic": FIRST, "partitions": EPOCHS}]}),
    *(committed(9, name, ZERO) for name in (FIRST, NOWHERE)),
    *(committed(10, "", ident) for ident in (KNOWN, NO_ID)),
    Step(
        "CREATE_DELEGATION_TOKEN",
        3,
        {"ownerPrincipalType": None, "ownerPrincipalName": "b", "renewers": []},
    ),
]


def set_to(*topics: tuple[str, list[int]], group: str = SHARING) -> Step:
    items = [
        {"topicName": name, "partitions": [{"partitionIndex": p, "startOffset": 1} for p in each]}
        for name, each in topics
    ]
    return Step("ALTER_SHARE_GROUP_OFFSETS", 0, {"groupId": group, "topics": items})


def where(*topics: tuple[str, list[int]], group: str = SHARING) -> Step:
    items = [{"topicName": name, "partitions": partitions} for name, partitions in topics]
    body = {"groups": [{"groupId": group, "topics": items}]}
    return Step("DESCRIBE_SHARE_GROUP_OFFSETS", 1, body)


def forgotten(*topics: str, group: str = SHARING) -> Step:
    body = {"groupId": group, "topics": [{"topicName": name} for name in topics]}
    return Step("DELETE_SHARE_GROUP_OFFSETS", 0, body)


SHARES = [
    *(
        kind(*topics)
        for kind in (set_to, where)
        for topics in (
            [(FIRST, [0]), (FIRST, [1]), (FIRST, [0])],
            [(FIRST, [-1, 0])],
            [(FIRST, []), (SECOND, [0])],
            [(NOWHERE, []), (SECOND, [0])],
            [(NOWHERE, [-1, 0])],
        )
    ),
    set_to((NOWHERE, [0]), (NOWHERE, [0, 1])),
    set_to((FIRST, [0, 9, 9]), (FIRST, [8])),
    where((FIRST, [0]), group=""),
    where((NOWHERE, [-1]), group=""),
    forgotten(NOWHERE, NOWHERE, FIRST, FIRST),
]


MAKES = [
    [(FIRST, [])],
    [(FIRST, [9])],
    [(NOWHERE, [0]), (NOWHERE, [])],
    [(FIRST, []), (NOWHERE, [1])],
    [(FIRST, []), (SECOND, [])],
    [(FIRST, []), (SECOND, [0])],
    [(FIRST, [0]), (FIRST, [])],
    [(FIRST, [0, -1])],
]
"""Settings of missing share groups; some create a group, some cannot be deleted at once."""

MAKING = [
    step
    for topics in MAKES
    for step in (
        set_to(*topics, group=MADE),
        Step("LIST_GROUPS", 5, {"statesFilter": [], "typesFilter": []}),
        Step("SHARE_GROUP_DESCRIBE", 1, {"groupIds": [MADE]}),
        Step("DESCRIBE_SHARE_GROUP_OFFSETS", 1, {"groups": [{"groupId": MADE, "topics": None}]}),
        forgotten(FIRST, group=MADE),
        *[Step("DELETE_GROUPS", 2, {"groupsNames": [MADE]})] * 3,
    )
]


def first_commit(metadata: str) -> Step:
    partitions = [{"partitionIndex": 0, "committedOffset": 1, "committedMetadata": metadata}]
    body = {"groupId": UNKNOWN, "generationIdOrMemberEpoch": -1, "memberId": ""}
    return Step("OFFSET_COMMIT", 9, {**body, "topics": [{"name": FIRST, "partitions": partitions}]})


TOO_LONG = first_commit("x" * 4_097)
DELETION = Step("DELETE_GROUPS", 2, {"groupsNames": [UNKNOWN]})
WITHOUT_OFFSETS = [{"name": FIRST, "partitions": [{"partitionIndex": 0}]}]
SHARER = {"groupId": UNKNOWN, "memberId": ZERO, "memberEpoch": 0, "rackId": None}
UNWRITTEN = [
    TOO_LONG,
    Step("LIST_GROUPS", 5, {"statesFilter": [], "typesFilter": []}),
    *(
        Step(f"{kind}DESCRIBE{name}", version, {field: [UNKNOWN]})
        for kind, name, version, field in (
            ("", "_GROUPS", 6, "groups"),
            ("CONSUMER_GROUP_", "", 1, "groupIds"),
            ("SHARE_GROUP_", "", 1, "groupIds"),
        )
    ),
    Step("OFFSET_DELETE", 0, {"groupId": UNKNOWN, "topics": WITHOUT_OFFSETS}),
    Step("SHARE_GROUP_HEARTBEAT", 1, {**SHARER, "subscribedTopicNames": [FIRST]}),
    *(DELETION, DELETION, TOO_LONG, first_commit("x"), DELETION, DELETION),
]
"""A group that exists in its coordinator's memory only: its first commit stores nothing."""


def in_order(response: Any) -> Any:
    """Return a response with sorted lists, without the responding broker."""
    if isinstance(response, dict):
        return {key: in_order(value) for key, value in response.items() if key not in OWN}
    return sorted(map(in_order, response), key=str) if isinstance(response, list) else response


KINDS = {
    "quotas": QUOTAS,
    "looks": LOOKS,
    "nameless topics": NAMELESS,
    "creations": CREATIONS,
    "settings": SETTINGS,
    "data": DATA,
    "share group offsets": SHARES,
    "share groups that offsets make": MAKING,
    "a group without records": UNWRITTEN,
}


def begin(sides: Sides) -> None:
    """Wait until both brokers know the groups, the transactional id and the topics."""
    for side in sides:
        side.begin([SHARING, UNKNOWN, MADE], {})
        side.begin_transactions("odd-nobody")
        wait_until(lambda side=side: not side.response(set_to((FIRST, [0])), [])["errorCode"])


def test_odd_requests_get_the_responses_of_a_real_broker(real_kafka: Address) -> None:
    with both_sides(real_kafka, "requests/odd", TOPICS) as sides:
        begin(sides)
        for kind, steps in KINDS.items():
            for step in steps:
                ours, theirs = (in_order(side.response(step, [UNKNOWN, MADE])) for side in sides)
                assert ours == theirs, f"{kind}: {step}"


def random_request(chance: random.Random) -> Step:
    """Return partitions of several transactions without producers, to verify or add."""

    def topics() -> list[dict[str, Any]]:
        names = chance.sample([FIRST, SECOND, MANY, MANY, NOWHERE], chance.choice([1, 2, 3]))
        most = {**dict.fromkeys(names, 3), MANY: 20}
        drawn = {name: chance.choices(range(most[name]), k=chance.randint(0, 9)) for name in names}
        return [{"name": name, "partitions": numbers} for name, numbers in drawn.items()]

    items = [
        {"transactionalId": name, "producerId": 1, "producerEpoch": 5}
        | {"verifyOnly": chance.random() < 0.6, "topics": topics()}
        for name in chance.sample(["odd-nobody", ""], chance.choice([1, 2]))
    ]
    return Step("ADD_PARTITIONS_TO_TXN", chance.choice([4, 5]), {"transactions": items})


def test_partitions_of_transactions_have_the_order_of_a_real_broker(real_kafka: Address) -> None:
    chance = random.Random(18)
    with both_sides(real_kafka, "requests/odd_transactions", TOPICS) as sides:
        begin(sides)
        for _ in range(60):
            step = random_request(chance)
            ours, theirs = (side.response(step, []) for side in sides)
            assert ours == theirs, step
