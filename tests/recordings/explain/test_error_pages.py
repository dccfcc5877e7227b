"""docs/errors is generated from the table of rules and recordings of the repository."""

import re

import pytest

from brokertwin.errors import UserError
from brokertwin.protocol.errors import error_name
from brokertwin.recordings.explain import error_pages
from tests import error_pages as written
from tests.support.documents import DOCUMENTS, name_of
from tests.support.sources import ROOT


def test_the_pages_are_those_of_the_table() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in written.FOLDER.glob("*.md")}
    made = written.pages()
    assert there.keys() == made.keys(), "make error-pages"
    assert [name for name, text in made.items() if there[name] != text] == [], "make error-pages"


def test_an_error_of_the_recordings_has_an_example_with_a_reason() -> None:
    found = written.examples()
    assert len(found) > 40
    assert sum("    because  " in each for each in found.values()) >= 12


@pytest.mark.parametrize("code", [6, 19, 22, 25, 45, 47, 70, 71, 74, 75, 82], ids=error_name)
def test_example_has_the_cause_that_explain_finds(code: int) -> None:
    assert "    because  " in written.examples()[code]


def test_every_page_is_reached_from_the_list() -> None:
    linked = set(re.findall(r"\((\w+\.md)\)", error_pages.index()))
    assert linked | {"README.md"} == {path.name for path in written.FOLDER.glob("*.md")}
    assert {f"docs/errors/{name}" for name in linked} <= {name_of(page) for page in DOCUMENTS}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("25", 25),
        ("unknown-member-id", 25),
        ("UnknownMemberIdException", 25),
        ("org.apache.kafka.common.errors.NotLeaderOrFollowerException", 6),
        ("org.apache.kafka.common.errors.ProducerFencedException: There is a newer one", 90),
        ("NotLeaderForPartitionError", 6),
        ("NOT_LEADER_FOR_PARTITION", 6),
        ("InvalidPidMappingException", 49),
        ("TopicAuthorizationException", 29),
        ("TopicAuthorizationFailedError", 29),
        ("NetworkException", 13),
        ("Broker: Unknown member", 25),
        ("The coordinator is not aware of this member.", 25),
        ("KafkaJSProtocolError: The coordinator is not aware of this member", 25),
    ],
)
def test_an_error_by_its_name_or_by_that_of_an_exception(name: str, code: int) -> None:
    assert error_pages.code_of(name) == code


RARELY = "`brokertwin audit` has the findings max-poll-exceeded"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "org.apache.kafka.clients.consumer.CommitFailedException",
            "Explain UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION or STALE_MEMBER_EPOCH. `brokertwin",
        ),
        (
            "org.apache.kafka.clients.consumer.CommitFailedException: Commit cannot be completed",
            "Explain UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION",
        ),
        (
            "CommitFailedError: Offset commit cannot be completed since the consumer is not",
            "Explain UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION",
        ),
        ("TimeoutException", "`brokertwin audit` of the brokers' request log has the refusals"),
        ("Local: Broker transport failure", "Check addresses"),
        ("Local: Maximum application poll interval (max.poll.interval.ms) exceeded", RARELY),
        ("Local_MaxPollExceeded", RARELY),
        ("_MAX_POLL_EXCEEDED", RARELY),
        ("UNKNOWN_MEMBER", "Did you mean UNKNOWN_MEMBER_ID or "),
        ("FAILED", "List all errors with: brokertwin explain error. For other"),
        (
            "SomethingUnheardOfException",
            "List all errors with: brokertwin explain error. For other",
        ),
    ],
)
def test_other_names_are_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UserError) as raised:
        error_pages.code_of(name)
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(hint)


@pytest.mark.parametrize("name", ["WakeupException", "NoOffsetForPartitionException"])
def test_an_exception_without_an_error_of_a_broker_says_so(name: str) -> None:
    with pytest.raises(error_pages.OfClientError, match="no broker returns this"):
        error_pages.code_of(f"org.apache.kafka.clients.consumer.{name}: x")


def test_a_version_that_a_broker_does_not_have_is_explained() -> None:
    texts = (
        "Received request for api with key 0 (Produce) and unsupported version 2",
        "The node does not support OFFSET_FETCH",
    )
    for text in texts:
        with pytest.raises(error_pages.OfClientError, match="does not have this version"):
            error_pages.code_of(text)


def test_every_text_of_the_symptoms_is_known() -> None:
    rows = re.findall(r"^\| (.*?) \|", (ROOT / "docs/symptoms.md").read_text(), re.MULTILINE)
    texts = [text.replace("…", "5") for row in rows for text in re.findall("`([^`]+)`", row)]
    assert len(texts) >= 30
    assert [text for text in texts if not is_known(text)] == []


def is_known(text: str) -> bool:
    try:
        return error_pages.code_of(text) in error_pages.RULES
    except error_pages.OfClientError:
        return True
    except UserError:
        return False


LOST_COORDINATOR = "Group coordinator k:9092 (id: 1) is unavailable or invalid due to cause"
NO_HEARTBEATS = "session timed out without receiving a heartbeat response"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Attempt to heartbeat failed since group is rebalancing", "joins its group again"),
        ("Request joining group due to: group is already rebalancing", "joins its group again"),
        ("Lost previously assigned partitions orders-0", "no longer has the member"),
        ("Timeout expired after 60000ms while awaiting InitProducerId", "no producer id"),
        (f"{LOST_COORDINATOR}: {NO_HEARTBEATS}.", "no response to its heartbeats"),
        (f"{LOST_COORDINATOR}: coordinator unavailable.", "looks for its coordinator"),
        ("Error sending fetch request (sessionId=7, epoch=3) to node 1:", "A Fetch had no"),
        ("Node 1 disconnected.", "failed or ended"),
        ("Bootstrap broker k:9092 (id: -1 rack: null) disconnected", "failed or ended"),
        ("kafka: client has run out of available brokers to talk to", "failed or ended"),
        ("Connection error: connect ECONNREFUSED 127.0.0.1:9092", "failed or ended"),
        ("KafkaJSNumberOfRetriesExceeded", "KafkaJS names the broker's last error"),
        ("Failed to update metadata after 60.0 secs.", "had no response in time"),
        ("Found no committed offset for partition orders-0", "has no committed offset"),
        ("Offset 12 is out of range for partition orders-0", "or the broker no record at it"),
        ("max-poll-exceeded", "is a finding of audit"),
    ],
)
def test_a_clients_own_text_is_explained_and_is_no_error_of_a_broker(text: str, said: str) -> None:
    with pytest.raises(error_pages.OfClientError) as raised:
        error_pages.code_of(text)
    assert said in raised.value.message
    assert raised.value.hint


def test_a_code_inside_a_text_is_its_error() -> None:
    text = "Error while fetching metadata with correlation id 5 : {orders=LEADER_NOT_AVAILABLE}"
    assert error_name(error_pages.code_of(text)) == "LEADER_NOT_AVAILABLE"
