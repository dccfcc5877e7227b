"""Deleting an internal topic deletes its coordinators' state and resumes pending requests."""

from typing import Any

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from brokertwin.state.core.events import BETWEEN_CELLS
from brokertwin.state.core.outputs import offsets_topic
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.groups import kinds
from brokertwin.state.groups.group_kind import GroupKind
from tests.support.cells import Cells, kind_of
from tests.support.consumer_groups import ConsumerBench
from tests.support.coordinators import GROUPS, Coordinators, error_of_commit
from tests.support.groups import GROUP, GroupBench
from tests.support.histories import START
from tests.support.machine import CLUSTER, Bench, header
from tests.support.replicas import BROKERS
from tests.support.share_groups import ShareBench
from tests.support.share_members import Shared, batch, completed, got
from tests.support.streams_groups import COUNTING, StreamsBench
from tests.support.transactions import TransactionBench

GONE = Error.NOT_COORDINATOR


def delete(bench: Bench, topic: str, broker: int = 1) -> list[dict[str, Any]]:
    body = {"topicNames": [topic], "timeoutMs": 30_000}
    response = bench.request("DELETE_TOPICS", 5, body, broker=broker)
    assert response["responses"][0]["errorCode"] == 0
    reported = [msgspec.json.decode(row.value or b"") for row in bench.of("responses", bench.last)]
    assert bench.dead_letters() == []
    return [each["response"] for each in reported if each["requestHeader"]["requestApiKey"] != 20]


def find(bench: Bench, key: str, key_type: int) -> int:
    body = {"keyType": key_type, "coordinatorKeys": [key]}
    return int(bench.request("FIND_COORDINATOR", 6, body)["coordinators"][0]["errorCode"])


def left(bench: Bench) -> dict[bytes, bytes]:
    """The present content of the compacted topic of offsets and groups."""
    result: dict[bytes, bytes] = {}
    for row in bench.of(offsets_topic(CLUSTER)):
        assert row.key is not None
        result.pop(row.key, None)
        if row.value is not None:
            result[row.key] = row.value
    return result


def of_groups(bench: Bench) -> list[str]:
    tables = bench.cell.tables
    keys = [key for key in tables.groups.keys("") if "/share-state/" not in key]
    return keys + tables.live_groups.keys("1/live") + tables.pending.keys("timer/group/")


@pytest.fixture
def classic() -> GroupBench:
    return GroupBench(group_initial_rebalance_delay_ms=0)


def test_pending_join_of_a_deleted_topic_gets_not_coordinator() -> None:
    """One waits for the end of a join; in another group one waits for the leader's assignment."""
    classic = GroupBench()
    first, second = classic.stable("a", "b")
    assert classic.waits(classic.join(first, protocols=[("range", "BBBB")]))
    reported = delete(classic, GROUP_TOPIC)
    assert [(each["errorCode"], each["memberId"]) for each in reported] == [(GONE, first)]
    assert classic.heartbeat(second, 1) == GONE
    assert of_groups(classic) == []
    assert classic.after(100_000).dead_letters() == []


def test_pending_sync_of_a_deleted_topic_gets_not_coordinator(classic: GroupBench) -> None:
    (first, _), (second, _) = classic.new_member(), classic.new_member(client="b")
    classic.join(first)
    follower = second if classic.response(classic.join(first))["leader"] == first else first
    assert classic.waits(classic.sync(follower, 2))
    assert [each["errorCode"] for each in delete(classic, GROUP_TOPIC)] == [GONE]


def test_join_without_coordinator_gets_no_member_id(classic: GroupBench) -> None:
    delete(classic, GROUP_TOPIC)
    response = classic.response(classic.join("m"))
    assert (response["errorCode"], response["memberId"]) == (GONE, "")


def test_deleted_offsets_and_groups_get_tombstones() -> None:
    classic = GroupBench()
    classic.stable("a", "b")
    commit = {"partitionIndex": 0, "committedOffset": 5}
    for group in ("simple", GROUP, "other"):
        classic.request("OFFSET_COMMIT", 8, groupId=group, name="foo", partitions=[commit])
    assert len(left(classic)) == 3
    delete(classic, GROUP_TOPIC)
    assert left(classic) == {}


def test_group_starts_again_with_the_new_topic(classic: GroupBench) -> None:
    (member,) = classic.stable("a")
    assert classic.commit(member, 1) == 0
    delete(classic, GROUP_TOPIC)
    assert find(classic, GROUP, 0) == Error.COORDINATOR_NOT_AVAILABLE
    assert find(classic, GROUP, 0) == 0
    assert classic.state() == "Dead"
    assert classic.heartbeat(member, 1) == Error.UNKNOWN_MEMBER_ID
    response = classic.request("OFFSET_FETCH", 8, groupId=GROUP, topics=None)
    assert response["groups"][0]["topics"] == []
    (member,) = classic.stable("a")
    assert classic.heartbeat(member, 1) == 0, "in its first generation"


def test_deleting_the_topic_deletes_consumer_groups(classic: GroupBench) -> None:
    bench = ConsumerBench()
    bench.join("a", subscribedTopicRegex="f.*")
    assert bench.join("b")["errorCode"] == 0
    delete(bench, GROUP_TOPIC)
    assert (of_groups(bench), left(bench)) == ([], {})
    assert bench.beat("a", 2)["errorCode"] == GONE
    find(bench, "g", 0)
    assert bench.beat("a", 2)["errorCode"] == Error.GROUP_ID_NOT_FOUND
    assert bench.join("a")["memberEpoch"] == 2


def test_deleting_the_topic_deletes_streams_groups() -> None:
    bench = StreamsBench()
    bench.join("a", COUNTING)
    bench.later("a", 2, shutdownApplication=True)
    delete(bench, GROUP_TOPIC)
    assert (of_groups(bench), left(bench)) == ([], {})
    assert bench.beat("a", 2)["errorCode"] == GONE


def test_deleting_the_topic_deletes_share_groups_and_keeps_states() -> None:
    bench = ShareBench()
    bench.beat("a", 0, "foo")
    states = bench.states()
    assert states
    delete(bench, GROUP_TOPIC)
    assert (of_groups(bench), left(bench), bench.states()) == ([], {}, states)
    response = bench.request("SHARE_GROUP_DESCRIBE", 1, groupIds=["g"])["groups"][0]
    assert response["errorMessage"] == "This is not the correct coordinator."


def test_every_kind_of_group_has_tombstones_for_its_records() -> None:
    without = GroupKind.member_tombstones
    names = {each.name for each in kinds.KINDS.values() if type(each).member_tombstones is without}
    assert names == {"classic"}, "whose members are part of the group's record"


def test_deletion_drops_offsets_of_open_transactions_only() -> None:
    bench = TransactionBench()
    holder = bench.init()
    assert bench.add_offsets("t1", holder) == bench.commit_offset("t1", holder, 7) == 0
    delete(bench, GROUP_TOPIC)
    assert of_groups(bench) == []
    for version in (3, 5):
        response = bench.commit_offset("t1", holder, 8, version=version)
        assert response == Error.COORDINATOR_NOT_AVAILABLE
    assert bench.state_of() == "Ongoing"
    assert bench.end("t1", holder, is_commit=True)
    assert bench.state_of() == "CompleteCommit", "nothing of it is where a marker could go"


def test_listings_and_descriptions_see_no_coordinator() -> None:
    bench = TransactionBench(transaction_partition_verification_enable=False)
    holder = bench.init()
    delete(bench, GROUP_TOPIC)
    assert bench.commit_offset("t1", holder, 8) == GONE
    assert bench.commit_offset("t1", holder, 8, version=5) == Error.COORDINATOR_NOT_AVAILABLE


def test_deletion_drops_transactional_ids_and_open_transactions_hang() -> None:
    bench = TransactionBench()
    holder = bench.init()
    assert bench.add("t1", holder, a=[0]) == {"a": [0]}
    assert bench.produce("t1", holder, 0)[0] == 0
    delete(bench, TRANSACTION_TOPIC)
    assert bench.cell.tables.transactions.keys("") == []
    assert bench.cell.tables.pending.keys("timer/transactions/") == []
    assert bench.described()["errorCode"] == GONE
    find(bench, "t1", 1)
    assert bench.described()["errorCode"] == Error.TRANSACTIONAL_ID_NOT_FOUND
    assert bench.add("t1", holder, a=[0]) == {"a": [Error.INVALID_PRODUCER_ID_MAPPING]}
    new = bench.init()
    assert (new.producer_id > holder.producer_id, new.epoch) == (True, 0)
    bench.tick(600_000)
    assert bench.read()["lastStableOffset"] == 0, "no coordinator ends it"
    assert bench.dead_letters() == []


def test_stopped_broker_forgets_when_it_reads_the_deletion() -> None:
    bench = Bench((1, 2), offsets_topic_num_partitions=1, offsets_topic_replication_factor=1)
    bench.topic("foo")
    bench.settings.may_intervene = True
    find(bench, "g", 0)
    response = bench.request("METADATA", 12, name=GROUP_TOPIC)
    leader = response["topics"][0]["partitions"][0]["leaderId"]
    body = {"groupId": "g", "name": "foo", "partitionIndex": 0, "committedOffset": 5}
    assert error_of_commit(bench.request("OFFSET_COMMIT", 8, body, broker=leader)) == 0
    intervene(bench, "stop-broker", leader)
    assert bench.cell.tables.groups.keys(f"{leader}/")
    delete(bench, GROUP_TOPIC, broker=3 - leader)
    intervene(bench, "start-broker", leader)
    assert bench.cell.tables.groups.keys("") == []
    assert left(bench) == {}


def intervene(bench: Bench, kind: str, broker: int) -> None:
    event = {"id": f"{kind}-{broker}", "cluster": CLUSTER, "kind": kind, "time": bench.now}
    bench.handle({**event, "broker": broker})
    assert bench.dead_letters() == []


# Share states


def test_deletion_drops_share_states_and_keeps_groups() -> None:
    """A leader's write creates the topic again; the state is unknown."""
    bench = Shared()
    assert bench.fetch("a") == [(0, 2, 1)]
    delete(bench, SHARE_TOPIC)
    assert bench.states() == []
    assert bench.group() is not None
    assert bench.acknowledge("a", batch(0, 0, 1)) == Error.UNKNOWN_SERVER_ERROR
    assert bench.request("METADATA", 12, name=SHARE_TOPIC)["topics"][0]["partitions"], (
        "it is there again"
    )
    assert bench.acknowledge("a", batch(0, 0, 1)) == Error.UNKNOWN_SERVER_ERROR


def test_leader_that_reads_a_state_recreates_the_topic() -> None:
    bench = Shared()
    assert bench.lose("z") == []
    delete(bench, SHARE_TOPIC)
    response = bench.share("b", 0)
    result = response["responses"][0]["partitions"][0]
    assert result["errorCode"] == Error.UNKNOWN_SERVER_ERROR
    request = {"groupId": GROUP, "topicId": bench.ids["foo"], "partition": 0, "leaderEpoch": 0}
    partition = bench.request("READ_SHARE_GROUP_STATE", 0, request)["results"][0]["partitions"][0]
    assert partition["errorCode"] == Error.INVALID_REQUEST, "not begun, and no longer 16"


def test_share_fetch_with_acknowledgements_does_not_wait_for_the_topic() -> None:
    bench = Shared()
    assert bench.fetch("a") == [(0, 2, 1)]
    delete(bench, SHARE_TOPIC)
    assert bench.fetch("a", 500, batch(0, 0, 1)) is None
    assert bench.dead_letters() == []
    bench.append("foo", header(1))
    (result,) = [each["response"] for each in completed(bench)][-1]["responses"][0]["partitions"]
    assert result["acknowledgeErrorCode"] == Error.UNKNOWN_SERVER_ERROR
    assert got(completed(bench)[-1]["response"]) == [(3, 3, 1)]


def test_former_share_coordinator_has_kafkas_error_message() -> None:
    bench = Shared()
    delete(bench, SHARE_TOPIC)
    unable = {
        "READ_SHARE_GROUP_STATE": "read share group state",
        "READ_SHARE_GROUP_STATE_SUMMARY": "read share group state summary",
        "WRITE_SHARE_GROUP_STATE": "write share group state",
        "INITIALIZE_SHARE_GROUP_STATE": "initialize share group state",
        "DELETE_SHARE_GROUP_STATE": "delete share group state",
    }
    written = {"leaderEpoch": 0, "stateEpoch": 1, "startOffset": 0, "stateBatches": []}
    fields = {
        "READ": {"leaderEpoch": 0},
        "WRITE": written,
        "INITIALIZE": {"stateEpoch": 1, "startOffset": 0},
        "DELETE": {},
    }
    for api, what in unable.items():
        place = {"partition": 0, **fields[api.partition("_")[0]]}
        topics = [{"topicId": bench.ids["foo"], "partitions": [place]}]
        response = bench.request(api, 0, {"groupId": GROUP, "topics": topics})
        (result,) = response["results"][0]["partitions"]
        wanted = f"Unable to {what}: This is not the correct coordinator."
        assert (result["errorCode"], result["errorMessage"]) == (GONE, wanted)


# Several brokers and cells


def test_uncommitted_offset_commit_gets_not_coordinator() -> None:
    brokers = Coordinators()
    coordinator = brokers.coordinator(GROUPS)
    brokers.replicas.isolate(*(each for each in BROKERS if each != coordinator))
    waits = brokers.send_commit(6)
    delete(brokers.bench, GROUP_TOPIC, broker=coordinator)
    assert error_of_commit(brokers.response(waits)) == GONE
    assert left(brokers.bench) == {}
    assert brokers.bench.cell.tables.groups.keys("") == []


def test_uncommitted_transactional_id_gets_coordinator_not_available() -> None:
    brokers = Coordinators()
    coordinator = brokers.coordinator(1)
    brokers.replicas.isolate(*(each for each in BROKERS if each != coordinator))
    assert brokers.init() is None, "it waits"
    (result,) = delete(brokers.bench, TRANSACTION_TOPIC, broker=coordinator)
    assert result["errorCode"] == Error.COORDINATOR_NOT_AVAILABLE
    assert not [key for key in brokers.bench.cell.tables.in_flight.keys("") if "/busy/" in key]


def test_heartbeat_without_coordinator_does_not_name_the_member() -> None:
    bench = ConsumerBench(brokers=BROKERS)
    bench.settings.may_intervene = True
    request = {"topics": [{"name": GROUP_TOPIC}]}
    leader = bench.request("METADATA", 12, request)["topics"][0]["partitions"][0]["leaderId"]
    epoch = bench.join("a", broker=leader)["memberEpoch"]
    for broker in BROKERS:
        if broker != leader:
            intervene(bench, "isolate-broker", broker)
    body = {"groupId": "simple", "name": "foo", "partitionIndex": 0, "committedOffset": 5}
    assert bench.request("OFFSET_COMMIT", 8, body, broker=leader) is None
    assert bench.beat("a", epoch, broker=leader) is None
    reported = delete(bench, GROUP_TOPIC, broker=leader)
    (beat,) = [each for each in reported if "memberEpoch" in each]
    assert (beat["errorCode"], beat["memberId"], beat["memberEpoch"]) == (GONE, None, 0)


def test_lost_share_coordinator_has_kafkas_error_message() -> None:
    brokers = Coordinators()
    bench, topic_id = brokers.bench, brokers.partition(GROUPS)[0]
    key = f"s:{topic_id}:0"
    find(bench, key, 2)
    request = {"keyType": 2, "coordinatorKeys": [key]}
    leader = bench.request("FIND_COORDINATOR", 6, request)["coordinators"][0]["nodeId"]
    brokers.replicas.isolate(*(each for each in BROKERS if each != leader))
    body = {"groupId": "s", "topicId": topic_id, "partition": 0, "stateEpoch": 1, "startOffset": 0}
    assert bench.request("INITIALIZE_SHARE_GROUP_STATE", 0, body, broker=leader) is None
    (response,) = delete(bench, SHARE_TOPIC, broker=leader)
    (result,) = response["results"][0]["partitions"]
    wanted = "Unable to initialize share group state: This is not the correct coordinator."
    assert (result["errorCode"], result["errorMessage"]) == (GONE, wanted)


def test_each_cell_forgets_what_its_brokers_coordinated() -> None:
    settings = CellSettings(name=CLUSTER, cluster=CLUSTER, brokers=[1, 2], event_time="recorded")
    cells = Cells(settings, {"a": [1], "b": [2]})
    count = 0

    def send(key: int, version: int, broker: int, body: Any) -> Any:
        nonlocal count
        count += 1
        event = {"id": f"r{count}", "cluster": CLUSTER, "broker": broker, "time": START}
        of = {"requestApiKey": key, "requestApiVersion": version}
        document = {**event, "nonce": f"{count}", "requestHeader": of, "request": body}
        cells.handle(msgspec.json.encode(document))
        return cells.responses[f"r{count}"]["response"]

    topic = {"name": "foo", "numPartitions": 1, "replicationFactor": 1}
    send(19, 7, 1, {"topics": [topic], "timeoutMs": 1000})
    assert send(10, 6, 2, {"coordinatorKeys": ["g"]})["coordinators"][0]["errorCode"] == 15
    names = [f"g{number}" for number in range(8)]
    commit = {"partitionIndex": 0, "committedOffset": 5}
    for name in names:
        body = {"groupId": name, "topics": [{"name": "foo", "partitions": [commit]}]}
        reported = [error_of_commit(send(8, 8, broker, body)) for broker in (1, 2)]
        assert sorted(each or 0 for each in reported) == [0, GONE]
    assert all(groups_in(cell) for cell in cells.cells.values())
    send(20, 5, 2, {"topicNames": [GROUP_TOPIC], "timeoutMs": 1000})
    assert [groups_in(cell) for cell in cells.cells.values()] == [[], []]
    send(10, 6, 1, {"coordinatorKeys": ["g"]})
    listed = [send(16, 4, broker, {"statesFilter": []})["groups"] for broker in (1, 2)]
    assert listed == [[], []]
    assert cells.dead_letters() == []
    assert {kind_of(row) for row in cells.topic} & BETWEEN_CELLS


def groups_in(cell: Cell) -> list[str]:
    return cell.tables.groups.keys("")
