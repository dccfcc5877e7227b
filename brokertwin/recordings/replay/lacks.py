"""What a recording lacks for a comparison: found before the search, which takes long."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from brokertwin.protocol.kafka_apis import FETCH
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.wording import counted

OF_MEMBERS = ("HEARTBEAT", "SYNC_GROUP", "OFFSET_COMMIT", "LEAVE_GROUP")
BEATS = ("CONSUMER_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT", "STREAMS_GROUP_HEARTBEAT")
NO_SESSION = 0


def lacks(exchanges: Iterable[Exchange]) -> Iterator[str]:
    """Yield sentences for the beginning of a log, batch headers, and places of replicas.

    A fetch session, a member or a topic is older than the recording if it is used, and no request
    before made it.
    """
    sessions: set[tuple[int, int]] = set()
    members: set[str] = set()
    created: set[str] = set()
    old: dict[str, set[object]] = {"fetch session": set(), "group": set(), "topic": set()}
    brokers: set[int] = set()
    is_placed = True
    produces: list[bool] = []
    for each in exchanges:
        brokers.add(each.broker)
        response = each.response or {}
        if each.header.request_api_key == FETCH.key:
            asked = each.broker, int(each.body().get("sessionId") or NO_SESSION)
            if asked[1] != NO_SESSION and asked not in sessions:
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
        elif each.api in OF_MEMBERS and not response.get("errorCode"):
            body = each.body()
            member = body.get("memberId")
            if member and member not in members and body.get("generationId", 0) >= 0:
                old["group"].add(str(body.get("groupId")))
        elif each.api == "CREATE_TOPICS":
            topics = each.body().get("topics") or ()
            created |= {topic["name"] for topic in topics}
            is_placed &= all(topic.get("assignments") for topic in topics)
        elif each.api == "PRODUCE":
            produces.append(_has_headers(each.body()))
            for topic in response.get("responses") or ():
                name = topic.get("name") or topic.get("topicId")
                if any(part.get("baseOffset", 0) > 0 for part in topic["partitionResponses"]):
                    old["topic"] |= {str(name)} - created
                created.add(str(name))
    if began := [counted(len(found), what) for what, found in old.items() if found]:
        yield (
            f"The recording does not have its beginning: {', '.join(began)} began before."
            " Responses that depend on them differ. Compare a log from the start of its cluster, or"
            " continue a kept state with --from."
        )
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


def _has_headers(produce: Mapping[str, Any]) -> bool:
    return all(
        part.get("batches")
        for topic in produce.get("topicData") or ()
        for part in topic.get("partitionData") or ()
    )
