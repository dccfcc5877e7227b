"""What a recording lacks for a comparison: found before the search, which takes long."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from brokertwin.protocol.kafka_apis import FETCH
from brokertwin.recordings.replay.before import TOPIC, created
from brokertwin.recordings.replay.choices import named_topics
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.wording import counted

OF_MEMBERS = ("HEARTBEAT", "SYNC_GROUP", "OFFSET_COMMIT", "LEAVE_GROUP")
BEATS = ("CONSUMER_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT", "STREAMS_GROUP_HEARTBEAT")
NO_SESSION = 0


def lacks(exchanges: Sequence[Exchange]) -> Iterator[str]:
    """Yield sentences for the beginning of a log, batch headers, and places of replicas."""
    yield from beginning(exchanges)
    brokers: set[int] = set()
    is_placed = True
    produces: list[bool] = []
    for each in exchanges:
        brokers.add(each.broker)
        if each.api == "CREATE_TOPICS":
            topics = each.body().get("topics") or ()
            is_placed &= all(topic.get("assignments") for topic in topics)
        elif each.api == "PRODUCE":
            produces.append(_has_headers(each.body()))
    if not all(produces):
        yield (
            f"{produces.count(False)} of {counted(len(produces), 'Produce request')} have no batch"
            " headers, which request logs lack. Responses that depend on records differ. Pass the"
            " headers with --batches, or add them with `brokertwin ingest --batches-from`."
        )
    if len(brokers) > 1 and not is_placed:
        yield (
            f"A comparison of {counted(len(brokers), 'broker')} is not supported, because the"
            " recording does not show where Kafka placed the replicas of new topics. Responses"
            " that depend on leaders differ. Compare the log of one broker, or create the topics"
            " with assigned replicas."
        )


def beginning(exchanges: Iterable[Exchange]) -> Iterator[str]:
    """Yield a sentence if a recording begins in the middle.

    A fetch session, a member or a topic is older than the recording if it is used, and no request
    before made it. A transactional id is older if its first producer epoch is above 0.
    """
    sessions: set[tuple[int, int]] = set()
    members: set[str] = set()
    producers: set[str | None] = set()
    made: set[tuple[str, str]] = set()
    names: dict[str, str] = {}
    old: dict[str, set[object]] = {
        each: set() for each in ("fetch session", "group", "topic", "transactional id")
    }
    for each in exchanges:
        response = each.response or {}
        names.update((topic_id, name) for name, topic_id in named_topics(each))
        if each.header.request_api_key == FETCH.key:
            body = each.body()
            asked = each.broker, int(body.get("sessionId") or NO_SESSION)
            is_used = body.get("sessionEpoch", 0) > 0 and not response.get("errorCode")
            if is_used and asked not in sessions:
                old["fetch session"].add(asked)
            sessions.add((each.broker, int(response.get("sessionId") or NO_SESSION)))
        elif each.api == "JOIN_GROUP":
            members.add(str(response.get("memberId")))
        elif each.api in BEATS:
            body = each.body()
            if body.get("memberEpoch", 0) <= 0 or response.get("errorCode"):
                members.add(str(response.get("memberId") or body.get("memberId")))
            elif body.get("memberId") not in members:
                old["group"].add(str(body.get("groupId")))
        elif each.api in OF_MEMBERS and not _is_refused(response):
            body = each.body()
            member = body.get("memberId")
            if member and member not in members and body.get("generationId", 0) >= 0:
                old["group"].add(str(body.get("groupId")))
        elif each.api == "INIT_PRODUCER_ID":
            producer = each.body().get("transactionalId")
            if producer not in producers and response.get("producerEpoch", 0) > 0:
                old["transactional id"].add(producer)
            if not response.get("errorCode"):
                producers.add(producer)
        elif each.api == "PRODUCE":
            for topic in response.get("responses") or ():
                topic_id = str(topic.get("topicId"))
                name = TOPIC, topic.get("name") or names.get(topic_id, topic_id)
                if all(part.get("errorCode") == 0 for part in topic["partitionResponses"]):
                    old["topic"] |= {name} - made
                made.add(name)
        made.update(created(each))
    if began := [counted(len(found), what) for what, found in old.items() if found]:
        yield (
            f"The recording does not have its beginning: {', '.join(began)} began before."
            " Responses and rows that depend on them differ. Record from the start of the cluster,"
            " or continue a kept state with `replay --from`."
        )


def _is_refused(response: Mapping[str, Any]) -> bool:
    topics = response.get("topics") or ()
    codes = [part.get("errorCode") for topic in topics for part in topic["partitions"]]
    return bool(response.get("errorCode")) or any(codes)


def _has_headers(produce: Mapping[str, Any]) -> bool:
    return all(
        part.get("batches")
        for topic in produce.get("topicData") or ()
        for part in topic.get("partitionData") or ()
    )
