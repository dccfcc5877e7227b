"""Deviations from golden responses, with consequences and version notes."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from brokertwin.protocol.errors import RETRIABLE, error_name
from brokertwin.protocol.schemas import API_KEYS
from brokertwin.recordings.replay.comparison import ABSENT, compare, keyed
from brokertwin.testing.exam.model import ExamSeverity, ExamSubject, Observation, Scenario
from brokertwin.testing.exam.normal import TEXTS, order_of
from brokertwin.testing.exam.player import Ended, Played, codes

ENDED = "end"
"""Step of a deviation that ended the scenario."""


class Outcome(StrEnum):
    """The result of a scenario."""

    AGREES = "agrees"
    DEVIATES = "deviates"
    EXPLAINED = "explained"
    """All its deviations have version notes."""
    NOT_CLAIMED = "not claimed"
    OTHER_SETTINGS = "other settings"
    """A setting of the broker makes the golden inapplicable."""
    NOT_ASKED = "not asked"
    """The rights of the user, or a read-only exam, do not allow the requests."""


class Deviation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A difference from the golden response.

    Attributes:
        step: label of the step; `ENDED` if the scenario stopped.
        path: of the field, like `topics[a].partitions[0].errorCode`.
        expected: value in the golden response.
        got: value in the response of the examined broker.
        version: version of the API.
        request: the request's body, with bytes as text.
        note: the version note that explains it.
        ended: the scenario stopped here: what happened.
        prepared: a refused preparation of the scenario, from which the deviation may come.
    """

    step: str
    path: str
    expected: Any
    got: Any
    severity: ExamSeverity
    api: str = ""
    version: int = 0
    request: Any = None
    note: str = ""
    ended: str = ""
    prepared: str = ""


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of a scenario; `reason` explains why it was not played."""

    subject: str
    scenario: str
    rule: str
    source: str
    kip: str
    outcome: Outcome
    deviations: list[Deviation] = []
    reason: str = ""
    elapsed_s: float = 0.0

    @property
    def unexplained(self) -> list[Deviation]:
        return [each for each in self.deviations if not each.note]


class VersionNote(msgspec.Struct, frozen=True):
    """Why a former or later Kafka deviates.

    Attributes:
        versions: versions of Kafka, like `3.9.1`.
        note: one sentence.
        paths: the last names of deviating fields, or `ENDED`; empty: any.
    """

    versions: list[str]
    scenarios: list[str]
    note: str
    paths: list[str] = []


DENIED = frozenset({29, 30, 31, 53, 65})
"""Codes of requests that the user may not send: `…_AUTHORIZATION_FAILED`."""


def judged(
    subject: ExamSubject,
    scenario: Scenario,
    played: Played,
    notes: Iterable[VersionNote] = (),
    is_user: bool = False,
) -> Result:
    """Compare the results of a scenario with its golden responses.

    Args:
        subject: subject of the scenario.
        scenario: the scenario.
        played: results of its steps.
        notes: version notes on the examined Kafka.
        is_user: a denied request makes the scenario inapplicable.
    """
    if is_user and (reason := _denied(scenario, played)):
        return not_played(subject, scenario, Outcome.NOT_ASKED, reason)
    deviations = [_noted(each, scenario.name, notes) for each in _deviations(scenario, played)]
    if played.refused:
        before = {each.label for each in scenario.golden[: played.refused_at]}
        deviations = [
            each if each.step in before else _prepared(each, played.refused) for each in deviations
        ]
    outcome = Outcome.AGREES
    if deviations:
        is_explained = all(each.note for each in deviations)
        outcome = Outcome.EXPLAINED if is_explained else Outcome.DEVIATES
    return Result(
        *_described(subject, scenario), outcome, deviations, elapsed_s=round(played.elapsed_s, 3)
    )


def _prepared(deviation: Deviation, refused: str) -> Deviation:
    """Count a deviation as a refused request: what followed says nothing about data."""
    worst = max(deviation.severity, ExamSeverity.CLIENTS, key=list(ExamSeverity).index)
    return msgspec.structs.replace(deviation, severity=worst, prepared=refused)


def _denied(scenario: Scenario, played: Played) -> str:
    """Return the first refusal for lack of rights that Kafka's golden does not have."""
    expected = set().union(*(codes(each.response) for each in scenario.golden))
    shown = [each for each in played.exchanges if each is not None]
    if played.ended is not None and played.ended.exchange is not None:
        shown.append(played.ended.exchange)
    for each in shown:
        for code in sorted(codes(each.response) & DENIED - expected):
            return f"{each.api} is denied: {code} {error_name(code)}"
    is_denied = played.ended is not None and played.ended.code in DENIED
    return played.ended.text if is_denied and played.ended is not None else ""


def not_played(subject: ExamSubject, scenario: Scenario, outcome: Outcome, reason: str) -> Result:
    """Return the result of a scenario that does not apply."""
    return Result(*_described(subject, scenario), outcome, reason=reason)


def _described(subject: ExamSubject, scenario: Scenario) -> tuple[str, str, str, str, str]:
    """The fields of a result that do not depend on the broker."""
    return subject.name, scenario.name, scenario.rule, scenario.source, scenario.kip


def _deviations(scenario: Scenario, played: Played) -> list[Deviation]:
    deviations: list[Deviation] = []
    for place, golden in enumerate(scenario.golden):
        if place >= len(played.observations):
            break
        exchange = played.exchanges[place]
        api = exchange.api if exchange else ""
        step: list[Deviation] = []
        for path, expected, got in _differences(golden, played.observations[place], api):
            severity = consequence(scenario.severity, api, path, expected, got)
            if _is_beside_error(golden, played.observations[place], path, api):
                severity = ExamSeverity.UNREAD
            step.append(
                Deviation(
                    golden.label,
                    path,
                    expected,
                    got,
                    severity,
                    api,
                    exchange.version if exchange else 0,
                    builtins(exchange.request) if exchange else None,
                )
            )
        deviations += sorted(step, key=_urgency)
    if played.ended is not None:
        deviations.append(_ended(scenario, played.ended))
    return deviations


def _urgency(deviation: Deviation) -> tuple[int, bool]:
    """Sort the deviations of a response: the worst first, and error codes before other fields."""
    is_error = last_name(deviation.path).lower().endswith("errorcode")
    return list(ExamSeverity).index(deviation.severity), not is_error


_TOKEN = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def _is_beside_error(golden: Observation, got: Observation, path: str, api: str) -> bool:
    """True if both responses have an error there: clients then ignore other fields."""
    order = order_of(API_KEYS[api]) if api in API_KEYS else {}
    sides = [keyed(each.response, order) for each in (golden, got)]
    have_errors = False
    for bracketed, plain in _TOKEN.findall(path):
        if all(isinstance(each, dict) for each in sides):
            have_errors = all(each.get("errorCode") for each in sides)
        token = bracketed or plain
        try:
            sides = [e[int(token)] if isinstance(e, list) else e[token] for e in sides]
        except (LookupError, TypeError, ValueError):
            break
    return have_errors and last_name(path) not in OF_ERRORS


OF_ERRORS = frozenset({"errorCode", "leaderId", "leaderEpoch", "endOffset", "epoch"})
"""Fields that clients read beside an error: new leaders, and where a log diverges."""


def _ended(scenario: Scenario, ended: Ended) -> Deviation:
    """Return the deviation of a scenario that stopped."""
    if not ended.path or ended.exchange is None:
        text = f"{ended.step}: {ended.text}"
        clients = ExamSeverity.CLIENTS
        return Deviation(ENDED, ENDED, "the scenario continues", text, clients, ended=ended.text)
    api, version, request, _ = ended.exchange
    worst = consequence(scenario.severity, api, ended.path, ended.expected, ended.got)
    severity = min(worst, ExamSeverity.CLIENTS, key=list(ExamSeverity).index)
    return Deviation(
        ended.step,
        ended.path,
        ended.expected,
        ended.got,
        severity,
        api,
        version,
        builtins(request),
        ended=ended.text,
    )


def differences(scenario: Scenario, shown: Sequence[Observation]) -> list[tuple[str, Any, Any]]:
    """Return path, expected value and value of each difference from the golden."""
    apis = [step.api for step in scenario.steps if step.label]
    found = [("observations", len(scenario.golden), len(shown))]
    found = [] if len(shown) == len(scenario.golden) else found
    for golden, got, api in zip(scenario.golden, shown, apis, strict=False):
        found += _differences(golden, got, api)
    return found


def _differences(golden: Observation, got: Observation, api: str) -> list[tuple[str, Any, Any]]:
    if golden.response is None or got.response is None:
        return [] if golden == got else [("outcome", golden.value, got.value)]
    order = order_of(API_KEYS[api]) if api in API_KEYS else {}
    outcome = compare(keyed(golden.response, order), keyed(got.response, order))
    return [(each.path, each.expected, each.got) for each in outcome.differences]


UNREAD = TEXTS | {
    "authorizedOperations",
    "clusterAuthorizedOperations",
    "topicAuthorizedOperations",
    "configSource",
    "configType",
    "documentation",
    "isSensitive",
    "readOnly",
    "synonyms",
    "lastTimestamp",
    "coordinatorEpoch",
    "currentTxnStartOffset",
    "logAppendTimeMs",
    "isSimpleConsumerGroup",
    "protocolData",
}
"""Fields that clients pass on or ignore: no client acts on their values."""

DATA_FIELDS = frozenset(
    {
        "abortedTransactions",
        "acquiredRecords",
        "baseOffset",
        "baseSequence",
        "committedOffset",
        "deliveryCount",
        "endOffset",
        "firstOffset",
        "flags",
        "highWatermark",
        "isCrcValid",
        "lastOffset",
        "lastSequence",
        "lastStableOffset",
        "lowWatermark",
        "offset",
        "producerEpoch",
        "producerId",
        "records",
        "startOffset",
        "stateBatches",
        "transactionState",
    }
)
"""Fields with which a client decides what it reads, writes again or skips."""

ACTED_ON = frozenset(
    {
        "assignment",
        "clientInstanceId",
        "generationId",
        "groupState",
        "isThrottled",
        "leader",
        "leaderEpoch",
        "leaderId",
        "maxVersion",
        "memberEpoch",
        "memberId",
        "minVersion",
        "nodeId",
        "outcome",
        "partitionIndex",
        "partitions",
        "protocolName",
        "sessionId",
        "skipAssignment",
        "topicId",
        "topicPartitions",
    }
)
"""Fields that a client needs to go on: leaders, members, epochs, assignments, sessions."""

_ELEMENT = re.compile(r"\[[^\]]*\]$")


def consequence(worst: ExamSeverity, api: str, path: str, expected: Any, got: Any) -> ExamSeverity:
    """Return what a deviation does to clients.

    An accepted request that Kafka refuses has the worst consequence of its scenario. Another error
    than Kafka's breaks clients if only one of both is retriable, or either is no error.

    Args:
        worst: the worst consequence of a deviation in its scenario.
        api: API of the response.
        path: field, like `topics[a].partitions[0].errorCode`.
        expected: value in the golden response.
        got: value in the response of the examined broker.
    """
    name = last_name(path)
    parents = {part.partition("[")[0] for part in path.split(".")}
    if name in UNREAD or parents & {"synonyms"}:
        return ExamSeverity.UNREAD
    if name.lower().endswith("errorcode"):
        if not got:
            return worst
        is_same_kind = expected and (expected in RETRIABLE) == (got in RETRIABLE)
        return ExamSeverity.FIELD if is_same_kind else ExamSeverity.CLIENTS
    if worst is ExamSeverity.DATA and parents & DATA_FIELDS:
        return ExamSeverity.DATA
    is_element = bool(_ELEMENT.search(path)) or ABSENT in (expected, got)
    is_acted_on = name in ACTED_ON or "assignment" in parents or bool(parents & DATA_FIELDS)
    if is_acted_on or is_element or api == "ApiVersions":
        return ExamSeverity.CLIENTS
    return ExamSeverity.FIELD


def last_name(path: str) -> str:
    return path.rpartition(".")[2].partition("[")[0]


def _noted(deviation: Deviation, scenario: str, notes: Iterable[VersionNote]) -> Deviation:
    for note in notes:
        is_path = not note.paths or last_name(deviation.path) in note.paths
        if is_path and any(_matches(scenario, name) for name in note.scenarios):
            return msgspec.structs.replace(deviation, note=note.note)
    return deviation


def _matches(scenario: str, name: str) -> bool:
    return scenario.startswith(name[:-1]) if name.endswith("*") else scenario == name


def builtins(value: Any) -> Any:
    """Return a body with bytes as hexadecimal text."""
    if isinstance(value, bytes):
        return f"hex:{value.hex()}"
    if isinstance(value, dict):
        return {name: builtins(part) for name, part in value.items()}
    if isinstance(value, list):
        return [builtins(part) for part in value]
    return value


Key = tuple[str, str, str]


def keys_of(results: Iterable[Result]) -> set[Key]:
    """Return scenario, step and path of all deviations without a version note."""
    return {
        (result.scenario, each.step, each.path) for result in results for each in result.unexplained
    }


def new_deviations(results: Iterable[Result], baseline: Collection[Key]) -> list[Deviation]:
    """Return the unexplained deviations that a baseline does not have."""
    return [
        each
        for result in results
        for each in result.unexplained
        if (result.scenario, each.step, each.path) not in baseline
    ]


EXIT_CODES: Mapping[ExamSeverity, int] = {
    ExamSeverity.UNREAD: 3,
    ExamSeverity.FIELD: 3,
    ExamSeverity.CLIENTS: 4,
    ExamSeverity.DATA: 5,
}
"""Exit codes by the worst severity; 0 without deviations."""


def exit_code(deviations: Iterable[Deviation]) -> int:
    return max((EXIT_CODES[each.severity] for each in deviations), default=0)
