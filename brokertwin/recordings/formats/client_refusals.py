"""Refusals that clients report in words, in logs without requests: Java, Python, kafka-go.

Errors that a client makes up itself, such as NETWORK_EXCEPTION, are left out.

Source: the classes of org.apache.kafka.clients in Kafka 2 to 4, `coordinator/base.py` and
`coordinator/consumer.py` of kafka-python, `consumer/group_coordinator.py` of aiokafka,
`consumergroup.go`, `reader.go` and `writer.go` of kafka-go.
"""

import re
from typing import NamedTuple

from brokertwin.patterns import later
from brokertwin.protocol.errors import Error
from brokertwin.recordings.formats.client_errors import code_of, of_exception

_NUMBERED = rb" [^\n]{0,300}[:,] ?\[\d+\] "
_OF_JAVA = (
    rb"clientId=[^\n\]]{0,300}\] (?:Attempt to (?:heartbeat|fetch offsets) "
    rb"|Offset ?[Cc]ommit failed|(?:Join|Sync|Leave)Group |Group coordinator lookup failed"
    rb"|(?:Consumer|Share)?GroupHeartbeat"
    rb"|Node -?\d+ was unable|Fetch (?:position|offset) |Received unknown topic|Got error produce"
    rb"|Transiting to (?:fatal|abortable) error|Error while fetching metadata"
    rb"|The metadata response from the cluster reported)"
)
MARKS = (
    _OF_JAVA,
    rb"Heartbeat failed(?: for group|: local member_id)",
    rb"Heartbeat: local member_id",
    rb"OffsetCommit failed for group ",
    rb"Attempt to join group ",
    rb"ailed to (?:join|sync|fetch|read)" + _NUMBERED,
    rb"leave group failed" + _NUMBERED,
    rb"error writing messages" + _NUMBERED,
    rb"roblem getting partitions" + _NUMBERED,
    rb"Unable to establish connection to consumer group" + _NUMBERED,
    rb"the kafka reader (?:got an" + _NUMBERED + rb"|is reading )",
)
"""Patterns in lines with a refusal, after the time."""


class Refusal(NamedTuple):
    """A refusal in a line.

    Attributes:
        client: "" if the line does not name it.
        api: name of the API; "" if the line does not tell it.
        said: name or text of the error.
        number: the correlation id; None if the line does not have it.
    """

    client: str
    api: str
    said: str
    number: int | None = None


_MARKS = later(b"|".join(MARKS).decode())
_CLIENT = later(
    r"\[(?:Consumer|ShareConsumer|Producer|AdminClient|Worker) "
    r"(?:instanceId=[^,\]]*+, )?clientId=([^,\]]*+)[^\]]*+\] "
)
_PYTHONS = r"(?P<said>\[Error \d+\](?= [A-Z]\w*Error)|Error - \d+)"
_GOS = r"\[(?P<said>\d+)\] (?P<title>\w+(?: \w+)*)"
_BEATS = r"(?P<heartbeat>Consumer|Share|)GroupHeartbeat(?:Request)? failed "
_Forms = tuple[tuple[re.Pattern[str], str, str], ...]
_JAVA: _Forms = tuple(
    (later(form), api, said)
    for form, api, said in (  # Kafka 2.0 and later
        (r"Attempt to heartbeat failed since group is reb", "HEARTBEAT", "REBALANCE_IN_PROGRESS"),
        (
            r"Attempt to heartbeat failed .*member id .*not valid",
            "HEARTBEAT",
            "UNKNOWN_MEMBER_ID",
        ),
        (r"Attempt to heartbeat failed since generation", "HEARTBEAT", "ILLEGAL_GENERATION"),
        (r"Attempt to heartbeat with .* failed due to (?P<said>[A-Z_]+)", "HEARTBEAT", ""),
        (r"JoinGroup failed: The group instance id ", "JOIN_GROUP", "FENCED_INSTANCE_ID"),
        (r"JoinGroup failed: Coordinator .* is load", "JOIN_GROUP", "COORDINATOR_LOAD_IN_PROGRESS"),
        (r"JoinGroup failed(?: due to [\w-]+ error)?: (?P<said>.*)", "JOIN_GROUP", ""),
        (r"SyncGroup failed: The group began another", "SYNC_GROUP", "REBALANCE_IN_PROGRESS"),
        (r"SyncGroup failed: The group instance id ", "SYNC_GROUP", "FENCED_INSTANCE_ID"),
        (r"SyncGroup failed: (?P<said>.*)", "SYNC_GROUP", ""),
        (r"LeaveGroup request with .* failed with error: (?P<said>.*)", "LEAVE_GROUP", ""),
        (r"Group coordinator lookup failed: (?P<said>.*)", "FIND_COORDINATOR", ""),
        (
            r"Offset commit failed on partition \S+ at offset -?\d+: (?P<said>.*)",
            "OFFSET_COMMIT",
            "",
        ),
        (r"OffsetCommit failed with unknown member", "OFFSET_COMMIT", "UNKNOWN_MEMBER_ID"),
        (r"OffsetCommit failed for member .* stale", "OFFSET_COMMIT", "STALE_MEMBER_EPOCH"),
        (r"OffsetCommit failed with .*?\}: (?P<said>.*)", "OFFSET_COMMIT", ""),
        (_BEATS + r"for member \S+ because epoch", "", "FENCED_MEMBER_EPOCH"),
        (_BEATS + r"because member \S+ is unknown", "", "UNKNOWN_MEMBER_ID"),
        (_BEATS + r"due to unreleased instance id", "", "UNRELEASED_INSTANCE_ID"),
        (_BEATS + r"due to fenced instance id", "", "FENCED_INSTANCE_ID"),
        (_BEATS + r"because the group coordinator .* is incorrect", "", "NOT_COORDINATOR"),
        (_BEATS + r"because the group coordinator .* avail", "", "COORDINATOR_NOT_AVAILABLE"),
        (_BEATS + r"because the group coordinator .* load", "", "COORDINATOR_LOAD_IN_PROGRESS"),
        (_BEATS + r"due to (?:unexpected error )?(?P<said>[A-Z]+_[A-Z_]+)", "", ""),
        (
            r"Node -?\d+ was unable to process the fetch request with .*: (?P<said>[A-Z_]+)",
            "FETCH",
            "",
        ),
        (r"Fetch (?:position|offset) .* is out of range for p", "FETCH", "OFFSET_OUT_OF_RANGE"),
        (r"Received unknown topic or partition error in f", "FETCH", "UNKNOWN_TOPIC_OR_PARTITION"),
        (r"Received unknown topic ID error in fetch", "FETCH", "UNKNOWN_TOPIC_ID"),
        (r"Received unknown topic .* in Li", "LIST_OFFSETS", "UNKNOWN_TOPIC_OR_PARTITION"),
        (r"Attempt to fetch offsets .* failed due to (?P<said>[A-Z_]+)", "LIST_OFFSETS", ""),
        (r"Got error produce response .*Error: (?P<said>[A-Z_]+)", "PRODUCE", ""),
        (
            r"Transiting to .*CommitFailedException: Transaction offset Commit .*?: (?P<said>.*)",
            "TXN_OFFSET_COMMIT",
            "",
        ),
        (r"Transiting to \w+ error state due to (?P<exception>[\w.$]+)(?:: (?P<said>.*))?", "", ""),
        (r"Error while fetching metadata .* : \{.*?=(?P<said>[A-Z_]+)", "METADATA", ""),
        (r"The metadata response from .* : \{.*?=(?P<said>[A-Z_]+)", "METADATA", ""),
    )
)
_OTHERS: _Forms = tuple(
    (later(form), api, said)
    for form, api, said in (
        # kafka-python and aiokafka
        (
            r"\bHeartbeat failed for group \S+ because it is rebalancing",
            "HEARTBEAT",
            "REBALANCE_IN_PROGRESS",
        ),
        (
            r"\bHeartbeat(?: failed)?: local member_id was not recognized",
            "HEARTBEAT",
            "UNKNOWN_MEMBER_ID",
        ),
        (r"\bOffsetCommit failed for group .*?" + _PYTHONS, "OFFSET_COMMIT", ""),
        (r"\bAttempt to join group \S+ failed due to .*?" + _PYTHONS, "JOIN_GROUP", ""),
        # kafka-go
        (r"\bFailed to join group \S+: " + _GOS, "JOIN_GROUP", ""),
        (r"\bFailed to sync group \S+: " + _GOS, "SYNC_GROUP", ""),
        (r"\bFailed to fetch offsets for group \S+: " + _GOS, "OFFSET_FETCH", ""),
        (r"\bleave group failed for group, .*: " + _GOS, "LEAVE_GROUP", ""),
        (r"\bUnable to establish .* group \S+: " + _GOS, "FIND_COORDINATOR", ""),
        (r"\bProblem getting partitions [^\[]*" + _GOS, "METADATA", ""),
        (r"\berror writing messages to .*?\): " + _GOS, "PRODUCE", ""),
        (r"\bthe kafka reader got an .*?: " + _GOS, "FETCH", ""),
        (r"\bfailed to read from current broker .*?: " + _GOS, "FETCH", ""),
        (r"\bthe kafka reader is reading (?:before|passed) the", "FETCH", "OFFSET_OUT_OF_RANGE"),
    )
)
_CORRELATION = later(r"correlation id (\d+)")
_NUMBER = later(r"(?:Error (?:- )?|^)(\d+)")
_OF_CLIENTS = (Error.NETWORK_EXCEPTION, Error.UNSUPPORTED_VERSION)
"""Errors that clients raise without a response."""

_HEARTBEATS = {"": "CONSUMER", "Consumer": "CONSUMER", "Share": "SHARE"}


def refusal_in(text: str) -> Refusal | None:
    """The refusal that a line reports, if any."""
    if not _MARKS.search(text):
        return None
    client = _CLIENT.search(text)
    for form, api, said in _OTHERS if client is None else _JAVA:
        match = form.match(text, client.end()) if client is not None else form.search(text)
        if match is None:
            continue
        part = match.groupdict()
        if part.get("title") and not _is_titled(_name(part["said"]), part["title"]):
            continue
        if "heartbeat" in part:
            api = f"{_HEARTBEATS[part['heartbeat']]}_GROUP_HEARTBEAT"
        of = _CORRELATION.search(match[0])
        number = int(of[1]) if of is not None else None
        by = client[1] if client is not None else ""
        if "exception" in part:
            said = _raised(part["exception"], part["said"] or "")
        else:
            said = said or _name(part["said"])
        return Refusal(by, api, said, number)
    return None


def _is_titled(name: str, title: str) -> bool:
    """Whether kafka-go's title has a word of the error's name: another program numbers others."""
    return not {*title.upper().split()}.isdisjoint(name.split("_"))


_TOO_LARGE_TO_SEND = re.compile(r"The message is \d+ bytes when serialized which is larger than")
"""KafkaProducer compares with max.request.size and buffer.memory, and sends nothing."""


def _raised(exception: str, said: str) -> str:
    """The text or the name of a broker's error that is raised; "" for one of the client itself."""
    error = of_exception(exception)
    if error is None or error in _OF_CLIENTS or _TOO_LARGE_TO_SEND.match(said):
        return ""
    older = Error.INVALID_PRODUCER_EPOCH  # Kafka before 2.7 raises ProducerFencedException for it
    return said if code_of(said) in (error, older) else error.name


def _name(said: str) -> str:
    """The name or the text of an error of a broker; "" for one of the client itself."""
    number = _NUMBER.search(said)
    if number is not None:
        return next((each.name for each in Error if int(number[1]) == each), "")
    return "" if code_of(said) is Error.NETWORK_EXCEPTION else said
