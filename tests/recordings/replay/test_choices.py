"""Which ids are taken over from recorded responses, and that they decide nothing."""

from typing import Any

import msgspec

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.recordings.replay.choices import choices_of
from brokertwin.recordings.replay.comparison import CompareVerdict
from brokertwin.recordings.replay.recording import Exchange, Recording
from brokertwin.state.core.events import Choices, RequestHeader
from tests.support.races import START, TOPIC, TimedRequest, create, metadata, recorded, replayed

ID_1, ID_2 = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def exchange(key: int, request: dict[str, Any], response: dict[str, Any] | None) -> Exchange:
    return Exchange(
        id="x",
        time=1,
        end=2,
        broker=1,
        header=RequestHeader(key, 4),
        request=msgspec.Raw(msgspec.json.encode(request)),
        response=response,
        is_recorded=True,
        connection="c1",
        principal="User:ANONYMOUS",
    )


def choices(key: int, request: dict[str, Any], response: dict[str, Any] | None) -> Choices | None:
    return choices_of([exchange(key, request, response)])[0]


def created(name: str, error: int = 0, **fields: Any) -> Exchange:
    return exchange(19, {}, {"topics": [{"name": name, "errorCode": error, **fields}]})


def shown(name: str, topic_id: str) -> Exchange:
    return exchange(3, {}, {"topics": [{"name": name, "errorCode": 0, "topicId": topic_id}]})


def deleted(name: str) -> Exchange:
    return exchange(20, {}, {"responses": [{"name": name, "errorCode": 0}]})


def test_a_session_id_is_taken_over_where_a_session_is_opened() -> None:
    assert choices(1, {"sessionEpoch": 0}, {"sessionId": 7}) == Choices(session_id=7)
    assert choices(1, {"sessionEpoch": 0}, {"sessionId": 0}) is None
    assert choices(1, {"sessionEpoch": 3}, {"sessionId": 7}) is None


def test_the_cluster_id_of_an_accepted_api_versions_request_is_taken_over() -> None:
    assert choices(18, {"clusterId": "c"}, {"errorCode": 0}) == Choices(cluster_id="c")
    assert choices(18, {"clusterId": "c"}, {"errorCode": 129}) is None
    assert choices(18, {}, {"errorCode": 0}) is None


def test_a_producer_id_is_taken_over_where_one_was_given() -> None:
    assert choices(22, {}, {"errorCode": 0, "producerId": 9}) == Choices(producer_id=9)
    assert choices(22, {}, {"errorCode": 14, "producerId": -1}) is None


def test_a_member_id_is_taken_over_where_the_request_has_none() -> None:
    joined = {"errorCode": 79, "memberId": "m-1"}
    assert choices(11, {"memberId": ""}, joined) == Choices(member_id="m-1")
    assert choices(11, {"memberId": "m-1"}, joined) is None
    assert choices(11, {"memberId": ""}, {"errorCode": 25, "memberId": "m-1"}) is None


def test_the_clusters_id_is_taken_over() -> None:
    assert choices(3, {}, {"clusterId": "abc", "topics": []}) == Choices(cluster_id="abc")
    assert choices(60, {}, {"clusterId": "abc"}) == Choices(cluster_id="abc")


def test_a_null_response_has_no_id() -> None:
    assert choices(0, {}, None) is None


def test_a_topic_id_is_taken_from_creation_or_a_later_response() -> None:
    own = choices_of([created("a", topicId=ID_1)])
    assert own == [Choices(topic_ids={"a": ID_1})]
    later = choices_of([created("a"), shown("a", ID_1)])
    assert later[0] == Choices(topic_ids={"a": ID_1})


def test_topics_that_brokers_create_for_share_groups_have_their_recorded_ids() -> None:
    config = {"name": "errors.deadletterqueue.topic.name", "value": "dead"}
    history = [
        exchange(44, {"resources": [{"configs": [config]}]}, {}),
        exchange(76, {}, {"errorCode": 0}),
        exchange(79, {}, {"errorCode": 0}),
        shown("dead", ID_1),
        shown("__share_group_state", ID_2),
    ]
    assert choices_of(history)[1:3] == [
        Choices(topic_ids={"__share_group_state": ID_2}),
        Choices(topic_ids={"dead": ID_1}),
    ]


def test_a_rejected_topic_gets_no_id() -> None:
    assert choices_of([created("a", error=36, topicId=ZERO_UUID), shown("a", ID_1)])[0] is None


def test_an_id_belongs_to_the_time_between_a_creation_and_a_deletion() -> None:
    history = [
        created("a"),
        shown("a", ID_1),
        deleted("a"),
        created("a"),
        shown("a", ID_2),
    ]
    found = choices_of(history)
    assert found[0] == Choices(topic_ids={"a": ID_1})
    assert found[3] == Choices(topic_ids={"a": ID_2})
    assert choices_of([created("a"), deleted("a"), created("a"), shown("a", ID_2)])[0] is None


def test_choices_cannot_make_a_refused_request_accepted() -> None:
    """The real broker is made to have accepted a second creation; the machine refuses it."""
    again = create(at=20, connection="other")._replace(name="again")
    requests = [create(), metadata("shown", 10), again, metadata("after", 30)]
    handled = [("create", 0), ("shown", 10), ("again", 20), ("after", 30)]
    recording = recorded(requests, handled)
    forged = Recording([_accepted(one) for one in recording.exchanges], [])
    _, outcomes = replayed(forged)
    assert outcomes["create"].verdict is CompareVerdict.AGREE
    assert outcomes["again"].verdict is CompareVerdict.DIFFER
    codes = [d for d in outcomes["again"].differences if d.path.endswith("errorCode")]
    assert [(code.expected, code.got) for code in codes] == [(0, 36)]


def test_an_id_for_a_request_the_model_rejects_is_a_difference() -> None:
    """The recording is changed: the broker rejects a request that the model accepts."""
    recording = recorded([create()], [("create", 0)])
    only = recording.exchanges[0]
    topic = {**only.response["topics"][0], "errorCode": 36, "topicId": ZERO_UUID}
    refused = msgspec.structs.replace(only, response={**only.response, "topics": [topic]})
    _, outcomes = replayed(Recording([refused], []))
    assert outcomes["create"].verdict is CompareVerdict.DIFFER


def test_an_epoch_is_no_choice() -> None:
    """Only the producer's id is taken over: a recorded epoch that cannot be is a difference."""
    body = {"transactionalId": None, "transactionTimeoutMs": 60000}
    first = TimedRequest("first", "INIT_PRODUCER_ID", 4, body, 0, 1, "p1")
    second = TimedRequest("second", "INIT_PRODUCER_ID", 4, body, 10, 1, "p1")
    recording = recorded([first, second], [("first", 0), ("second", 10)])
    given, wrong = recording.exchanges
    assert given.time == START
    assert wrong.response["errorCode"] == 0
    other_id = msgspec.structs.replace(wrong, response={**wrong.response, "producerId": 4711})
    _, outcomes = replayed(Recording([given, other_id], []))
    assert outcomes["second"].verdict is CompareVerdict.AGREE
    epoch = msgspec.structs.replace(wrong, response={**wrong.response, "producerEpoch": 5})
    _, outcomes = replayed(Recording([given, epoch], []))
    assert outcomes["second"].verdict is CompareVerdict.DIFFER


def _accepted(exchange: Exchange) -> Exchange:
    if exchange.id != "again":
        return exchange
    topic = {"name": TOPIC, "topicId": ID_2, "errorCode": 0, "errorMessage": None}
    return msgspec.structs.replace(exchange, response={"throttleTimeMs": 0, "topics": [topic]})
