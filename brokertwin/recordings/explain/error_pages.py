"""The page of an error, made of the table of rules; `docs/errors` holds them all.

A page there has an example of a recording of the repository, too (`tests/error_pages.py`).
"""

import difflib
import re
from typing import Any

from brokertwin.errors import UserError
from brokertwin.patterns import later
from brokertwin.protocol.errors import RETRIABLE, Error
from brokertwin.protocol.errors import error_name as name_of
from brokertwin.recordings.formats import client_errors
from brokertwin.recordings.rules import RULES, groups, producers, replicas

__all__ = ["RULES", "code_of", "document", "index", "name_of", "page"]

NAMES_SHOWN = 3
SESSIONS = (
    *(Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH),
    Error.FETCH_SESSION_TOPIC_ID_ERROR,
)
TRANSACTIONS = (
    *(Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_ID_MAPPING, Error.INVALID_TXN_STATE),
    *(Error.CONCURRENT_TRANSACTIONS, Error.TRANSACTION_ABORTABLE, Error.INVALID_PRODUCER_EPOCH),
    *(Error.INVALID_TRANSACTION_TIMEOUT, Error.TRANSACTIONAL_ID_NOT_FOUND),
)

OF_CLIENTS = {
    "COMMIT": (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.STALE_MEMBER_EPOCH),
    "TIMEOUT": (Error.REQUEST_TIMED_OUT,),
}
"""Exceptions that clients raise for several errors, or without one, by their letters."""

_LOCAL = later(r"(?:ErrorCode\.)?Local[:_]|_[A-Z]|Application maximum poll interval")


def code_of(name: str) -> int:
    """The code of an error by its code or name, or by a client's exception or text.

    Raises:
        UserError: there is no such error here.
    """
    by_name = {name_of(code): code for code in RULES}
    number = int(name) if re.fullmatch(r"-?\d+", name) else None
    code = number if number is not None else client_errors.of_exception(name.partition(":")[0])
    if code is None:
        code = client_errors.code_of(name)
    if code in RULES:
        return int(code)
    if _LOCAL.match(name):
        raise UserError(
            f"{name} is an error of librdkafka itself: no broker returns it.",
            "If a consumer polls too rarely, `brokertwin audit` has the findings max-poll-exceeded,"
            " member-came-back or member-dropped.",
        )
    near = [name_of(each) for each in OF_CLIENTS.get(client_errors.letters(name), ())]
    if near:
        raise UserError(
            f"A client raises {name} for several errors, or without one.",
            f"Explain {' or '.join(near)}. `brokertwin explain client ID FILE…` shows which one it"
            " was.",
        )
    near = difflib.get_close_matches(name.upper().replace("-", "_"), by_name, NAMES_SHOWN)
    hint = "List all errors with: brokertwin explain error"
    raise UserError(
        f"Unknown error {name}.", f"Did you mean {' or '.join(near)}?" if near else hint
    )


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
