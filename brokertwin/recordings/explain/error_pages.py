"""The page of an error, made of the table of rules; `docs/errors` holds them all.

A page there has an example of a recording of the repository, too (`tests/error_pages.py`).
"""

import difflib
import re
from typing import Any, NamedTuple

from brokertwin.errors import UserError
from brokertwin.protocol.errors import RETRIABLE, Error
from brokertwin.protocol.errors import error_name as name_of
from brokertwin.recordings.formats import client_errors
from brokertwin.recordings.rules import RULES, groups, producers, replicas
from brokertwin.recordings.rules.findings import OF_FINDINGS
from brokertwin.wording import with_full_stop

__all__ = ["RULES", "code_of", "document", "index", "name_of", "page"]

NAMES_SHOWN = 3
SESSIONS = (
    *(Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH),
    Error.FETCH_SESSION_TOPIC_ID_ERROR,
)
LOGINS = Error.SASL_AUTHENTICATION_FAILED, Error.UNSUPPORTED_SASL_MECHANISM
TRANSACTIONS = (
    *(Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_ID_MAPPING, Error.INVALID_TXN_STATE),
    *(Error.CONCURRENT_TRANSACTIONS, Error.TRANSACTION_ABORTABLE, Error.INVALID_PRODUCER_EPOCH),
    *(Error.INVALID_TRANSACTION_TIMEOUT, Error.TRANSACTIONAL_ID_NOT_FOUND),
)


class _OwnError(NamedTuple):
    """What a client prints for several errors of brokers, or without one."""

    pattern: str
    cause: str
    hint: str = ""


class OfClientError(UserError):
    """A client's text that stands for no single error of brokers; the hint says what to do."""


SYMPTOMS = (
    "List all errors with: brokertwin explain error. For other messages, read the page `From a"
    " symptom to a command` of the documentation."
)
_FROM_LOG = "`brokertwin explain client ID FILE…` shows which one it was."
_UNREACHED = (
    "Check addresses (bootstrap.servers, advertised.listeners), TLS and the network. No request log"
    " shows what reached no broker; `brokertwin explain client ID` of a DEBUG log counts requests"
    " without a response (Sarama does not log all responses)."
)
OF_CLIENTS = (
    _OwnError(
        r"poll timeout has expired|maximum (?:application )?poll interval|_?max_?poll_?exceeded",
        "The consumer polls too rarely: not once in max.poll.interval.ms.",
        "`brokertwin audit` has the findings max-poll-exceeded, member-came-back or"
        " member-dropped.",
    ),
    _OwnError(
        r"commit cannot be completed since|\bCommitFailed(?:Exception|Error)\b",
        "A client raises this for several errors, or without one.",
        f"Explain UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION or STALE_MEMBER_EPOCH. {_FROM_LOG}",
    ),
    _OwnError(
        r"Received request for api with key .* unsupported version|The node does not support",
        "The broker does not have this version of the API; Kafka 4 closes the connection then.",
        "Explain UNSUPPORTED_VERSION. `brokertwin audit` has the findings deprecated-api-version,"
        " from logs before an upgrade, and version-refused, from captures after it.",
    ),
    _OwnError(
        r"Resetting offset|Found no committed offset|Offset \S+ is out of range",
        "The group has no committed offset of the partition, or the broker no record at it.",
        "Explain OFFSET_OUT_OF_RANGE. `brokertwin explain partition TOPIC-N FILE…` shows it.",
    ),
    _OwnError(
        r"group is (?:already )?rebalancing|Request joining group due to",
        "The consumer joins its group again: a member joined, left or was removed.",
        "Explain REBALANCE_IN_PROGRESS. `brokertwin explain group GROUP FILE…` names the cause of"
        " each rebalance.",
    ),
    _OwnError(
        r"Lost previously assigned partitions|onPartitionsLost",
        "The coordinator no longer has the member: it was removed, another took its instance, or it"
        " left because it polled too rarely.",
        f"Explain UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION or FENCED_INSTANCE_ID. {_FROM_LOG}",
    ),
    _OwnError(
        r"awaiting InitProducerId|initializing transactional state",
        "The producer got no producer id in max.block.ms: its requests were refused, had no"
        " response, or reached no broker.",
        f"`brokertwin explain transaction ID FILE…` shows the refused ones. {_UNREACHED}",
    ),
    _OwnError(
        r"session timed out without receiving a heartbeat response",
        "The consumer got no response to its heartbeats in session.timeout.ms.",
        _UNREACHED,
    ),
    _OwnError(
        r"Group coordinator \S+ .*is unavailable or invalid",
        "The consumer looks for its coordinator again, for the reason after `due to cause`.",
        "Explain NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE.",
    ),
    _OwnError(
        r"Error sending fetch request|Fetch request .*failed due to",
        "A Fetch had no response: the connection ended, or request.timeout.ms passed.",
        _UNREACHED,
    ),
    _OwnError(
        r"not present in metadata after|Failed to update metadata after|Expiring \d+ record"
        r"|_?msg_timed_out|Message timed out|\b(?:Kafka)?Timeout(?:Exception|Error)\b",
        "A request had no response in time, was refused until the time-out, or reached no broker.",
        "`brokertwin audit` of the brokers' request log has the refusals: under-min-isr,"
        f" broker-gone, client-throttled. {_UNREACHED}",
    ),
    _OwnError(
        r"Connection to node -?\d+ .*could not be established|broker transport failure"
        r"|all broker connections are down|host resolution failure|local: SSL error|_TRANSPORT$"
        r"|\bNode -?\d+ disconnected|Bootstrap broker .*disconnected|SSL handshake failed"
        r"|run out of available brokers|unable to dial|\bi/o timeout|connection refused"
        r"|ECONNREFUSED|KafkaJSConnection\w*Error|SSL alert number"
        r"|_ALL_BROKERS_DOWN|_RESOLVE$|_SSL$|NoBrokersAvailable|\b(?:Disconnect|SslAuthentication)"
        "Exception",
        "The connection failed or ended: no broker returns this.",
        _UNREACHED,
    ),
    _OwnError(
        "NoOffsetForPartitionException",
        "The group has no committed offset, and auto.offset.reset is none: no broker returns this.",
        "`brokertwin offsets history DIR GROUP` shows when the offset was deleted.",
    ),
    _OwnError(
        r"Some data may have been lost|failOnDataLoss|offset was changed from \d+ to \d+",
        "Spark's Kafka source misses records: they were deleted, or the topic was created again.",
        "`brokertwin explain partition TOPIC-N FILE…` names the requests that did it.",
    ),
    _OwnError(
        r"KafkaJSNumberOfRetriesExceeded|KafkaJSProtocolError",
        "KafkaJS names the broker's last error after this, as `Caused by` or in the text.",
        f"Explain that text. {_FROM_LOG}",
    ),
    _OwnError(
        "WakeupException",
        "The application called wakeup() of its consumer: no broker returns this.",
    ),
    _OwnError(
        r"\b(?:Interrupt|Serialization|RecordDeserialization|Config|BufferExhausted)Exception",
        "The client raises this itself: no broker returns it.",
    ),
    _OwnError(
        r"^(?:ErrorCode\.)?Local[:_]|^_[A-Z]",
        "This is an error of librdkafka itself: no broker returns it.",
        SYMPTOMS,
    ),
)
"""The first one that fits counts."""


def of_client(text: str) -> OfClientError | None:
    """What a client's own text means; None if it is none."""
    for pattern, cause, hint in OF_CLIENTS:
        if re.search(pattern, text, re.IGNORECASE):
            return OfClientError(cause, hint)
    return None


def code_of(name: str) -> int:
    """The code of an error by its code or name, or by a client's exception or text.

    Raises:
        OfClientError: the text is a client's own, or the name of a finding.
        UserError: it is unknown.
    """
    number = int(name) if re.fullmatch(r"-?\d+", name) else None
    code = number if number is not None else _in_text(name)
    if code in RULES:
        return int(code)
    finding = OF_FINDINGS.get(name)
    if finding is not None:
        raise OfClientError(f"`{name}` is a finding of audit. {finding.why}", finding.do)
    own = of_client(name)
    if own is not None:
        raise own
    by_letters = {client_errors.letters(name_of(each)): name_of(each) for each in RULES}
    near = difflib.get_close_matches(client_errors.letters(name), by_letters, NAMES_SHOWN)
    meant = " or ".join(by_letters[each] for each in near)
    what = f"Unknown error {with_full_stop(name)}"
    raise UserError(what, f"Did you mean {meant}? " * bool(near) + SYMPTOMS)


def _in_text(text: str) -> Error | None:
    """The error in a client's text, which may have classes in front: `E: Broker: Not leader`."""
    last = text
    while text:
        head, _, rest = text.partition(": ")
        code = client_errors.of_exception(head) or client_errors.code_of(text)
        if code is not None:
            return code
        text, last = rest, text
    names = [each for each in re.findall(r"\b[A-Z][A-Z_]{5,}\b", last) if each in Error.__members__]
    return Error[names[0]] if names else None


def document(code: int) -> dict[str, Any]:
    return {
        "code": code,
        "error": name_of(code),
        "retriable": code in RETRIABLE,
        **RULES[code]._asdict(),
    }


def page(code: int, example: str = "") -> str:
    """The page of an error, as Markdown.

    `example`: what `explain` says of one in a recording.
    """
    rule = RULES[code]
    file = f"[`{rule.file}`](../../{rule.file})" if rule.file else "never returned by brokertwin"
    retriable = "Retriable" if code in RETRIABLE else "Not retriable"
    parts = [
        f"# {code} {name_of(code)}",
        rule.why,
        f"**Cause.** {rule.who}",
        f"**Do.** {rule.do}",
        f"{retriable}. Source: {', '.join(each for each in (rule.source, file) if each)}.",
    ]
    if example:
        parts.append(f"```text\n{example}\n```")
    parts.append(f"**In your logs.** {_commands_for(code)}")
    return "\n\n".join(parts) + "\n"


def text(code: int) -> str:
    """The page of an error as plain text, for a terminal."""
    rule = RULES[code]
    facts = {
        "Retriable": "yes" if code in RETRIABLE else "no",
        "Source": rule.source,
        "Cause": rule.who,
        "What to do": rule.do,
        "In a recording": _commands_for(code),
    }
    lines = [f"{name}: {fact}" for name, fact in facts.items() if fact]
    return "\n\n".join([f"{code} {name_of(code)}", rule.why, *lines]).replace("`", "")


def index() -> str:
    """The list of all pages, as Markdown."""
    rows = "".join(f"- [{code} {name_of(code)}]({name_of(code)}.md)\n" for code in sorted(RULES))
    return (
        "# Errors\n\nThe meaning and cause of each Kafka error, and what to do.\n\n"
        "- `brokertwin explain error CODE` prints a page.\n"
        "- `brokertwin explain line FILE:LINE FILE…` explains an error in a recording.\n"
        "- A page has an example if a recording of the repository has one, and ends with the"
        f" commands that find the cause in your logs.\n\n## All errors\n\n{rows}"
    )


def _commands_for(code: int) -> str:
    if code in LOGINS:
        return (
            "The request log has no logins. The broker's server.log has a line at INFO, `Failed"
            " authentication with /HOST`, with the reason. `brokertwin audit FILE…` of a capture"
            " shows the clients."
        )
    line = "`brokertwin explain line FILE:LINE FILE…` explains one line with this error"
    story = _story_of(code)
    whole = f"`brokertwin explain {story} FILE…` shows the timeline, " if story else ""
    return f"`brokertwin audit FILE…` shows the clients that get it and the cause, {whole}{line}."


def _story_of(code: int) -> str:
    if code in TRANSACTIONS:
        return "transaction ID"
    if code in producers.RULES:
        return "producer ID"
    if code in groups.RULES:
        return "group GROUP"
    if code in SESSIONS:
        return "session ID"
    return "partition TOPIC-N" if code in replicas.RULES else ""
