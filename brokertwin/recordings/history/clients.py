"""Clients: requests, refusals that no other machine reports, and sessions opened in a minute."""

from collections.abc import Iterator
from functools import partial

from msgspec import field

from brokertwin.protocol.errors import RETRIABLE, Error
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.batches import OF_SEQUENCES, TOO_FEW
from brokertwin.recordings.history.bodies import MARKERS, PRODUCER_APIS
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    ClientThrottled,
    DeprecatedVersion,
    Finding,
    Refused,
    SessionChurn,
    Severity,
)
from brokertwin.recordings.history.group_offsets import STALE
from brokertwin.recordings.history.memberships import MEMBER_APIS, REFUSED
from brokertwin.recordings.history.producers import FENCING, REPLACED
from brokertwin.recordings.history.sessions import NONE, SESSION_CODES, WINDOW_MS, opened_by
from brokertwin.recordings.history.shares import SESSION_ERRORS, SHARE_APIS

MANY = 10
"""Sessions opened by a client within `WINDOW_MS` from which on it churns."""

OPENINGS_MAX = 2_000
"""Maximum number of openings of a client that are kept."""

LONG_MS = 1_000
"""A wait for quotas from which on throttling is a warning."""

VERSIONS_MAX = 200
"""Maximum number of removed API versions of a client that are kept."""

CONNECTIONS_MAX = 1_000
"""Maximum number of connections of a client that are kept."""

ORDINARY = frozenset({Error.MEMBER_ID_REQUIRED, Error.REBALANCE_IN_PROGRESS})
"""Errors of members in the course of every rebalance."""

RECOVERED = RETRIABLE | {Error.GROUP_ID_NOT_FOUND, Error.TOPIC_ALREADY_EXISTS}
"""Errors from which clients recover by themselves."""

SEVERE = frozenset(
    {
        *(Error.UNKNOWN_SERVER_ERROR, Error.CORRUPT_MESSAGE, Error.KAFKA_STORAGE_ERROR),
        *(Error.TOPIC_AUTHORIZATION_FAILED, Error.GROUP_AUTHORIZATION_FAILED),
        *(Error.CLUSTER_AUTHORIZATION_FAILED, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    }
)
"""Errors from which no client recovers, and those of data that may be broken."""

OF_PRODUCERS = frozenset({*FENCING, *OF_SEQUENCES, REPLACED})
REPORTED_ELSEWHERE = {
    **dict.fromkeys(PRODUCER_APIS - {MARKERS}, OF_PRODUCERS),
    "FETCH": SESSION_CODES,
    **dict.fromkeys(MEMBER_APIS, REFUSED | ORDINARY),
    "OFFSET_COMMIT": STALE,
    "TXN_OFFSET_COMMIT": STALE | OF_PRODUCERS,
    **dict.fromkeys(SHARE_APIS, SESSION_ERRORS | {Error.INVALID_RECORD_STATE}),
    "PRODUCE": OF_PRODUCERS.union(TOO_FEW),
}
"""API to the errors that other machines report."""


class ObservedClient(ObservedEntity, kw_only=True):
    """A client id.

    Attributes:
        name: client id; `?` for requests without one.
        refused: number of responses with an error.
        connections: connections, the newest last.
        opened: fetch sessions opened within the last minute, in the order of the responses.
        reported: places of those that are evidence already.
        throttled: the responses that told it to wait; None if there was none.
        deprecated: API and version to its requests, if Kafka 4 does not have the version.
    """

    name: str
    requests: int = 0
    refused: int = 0
    connections: dict[str, int] = field(default_factory=dict)
    opened: list[RecordedRequest] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    throttled: ClientThrottled | None = None
    deprecated: dict[str, DeprecatedVersion] = field(default_factory=dict)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Count an exchange, and report its errors."""
        line = exchange.line
        self.requests += 1
        self.refused += bool(exchange.response["codes"])
        self.connections.pop(line.connection, None)
        self.connections[line.connection] = line.end
        while len(self.connections) > CONNECTIONS_MAX:
            del self.connections[next(iter(self.connections))]
        for code in exchange.response["codes"]:
            if code not in REPORTED_ELSEWHERE.get(line.api, ()):
                severity = severity_of(code)
                severity = min(severity, Severity.INFO) if line.is_own else severity
                yield Refused(line=line, severity=severity, name=self.name, code=code)
        if line.is_own:
            return
        if exchange.request["opened"] != NONE:
            yield from self._opened(line)
        # An exchange that waited in a checkpoint of an earlier program has no throttle time.
        throttle = exchange.response.get("throttle", 0)
        if throttle > 0:
            yield self._throttled(line, throttle)
        if line.is_removed:
            yield self._deprecated(line)

    def _throttled(self, line: RecordedRequest, wait_ms: int) -> Finding:
        """Report that the client was told to wait; each response completes one finding."""
        before = self.throttled
        longest = max(wait_ms, before.longest_ms if before is not None else 0)
        apis = [*(before.apis if before is not None else ()), line.api]
        self.throttled = ClientThrottled(
            line=line,
            severity=Severity.WARNING if longest >= LONG_MS else Severity.INFO,
            name=self.name,
            since=before.since if before is not None else line,
            count=(before.count if before is not None else 0) + 1,
            longest_ms=longest,
            total_ms=(before.total_ms if before is not None else 0) + wait_ms,
            apis=tuple(dict.fromkeys(apis)),
        )
        return self.throttled

    def _deprecated(self, line: RecordedRequest) -> Finding:
        """Report a removed API version; each request completes one finding."""
        key = f"{line.api} {line.version}"
        found = self.deprecated[key] = deprecated_by(line, self.deprecated.get(key))
        while len(self.deprecated) > VERSIONS_MAX:
            del self.deprecated[next(iter(self.deprecated))]
        return found

    def _opened(self, line: RecordedRequest) -> Iterator[Finding]:
        self.opened = [each for each in self.opened if each.end >= line.end - WINDOW_MS]
        self.opened = [*self.opened, line][-OPENINGS_MAX:]
        kept = {each.place for each in self.opened}
        self.reported = [each for each in self.reported if each in kept]
        if len(self.opened) < MANY:
            return
        for each in self.opened:
            if each.place not in self.reported:
                self.reported.append(each.place)
                most = len(self.opened)
                yield SessionChurn(line=each, severity=Severity.WARNING, name=self.name, most=most)


def deprecated_by(line: RecordedRequest, before: DeprecatedVersion | None) -> DeprecatedVersion:
    """The finding about an API version with one more request."""
    return DeprecatedVersion(
        line=line,
        severity=Severity.WARNING,
        name=line.name,
        since=before.since if before is not None else line,
        api=line.api,
        version=line.version,
        count=(before.count if before is not None else 0) + 1,
    )


def severity_of(code: int) -> Severity:
    """The severity of an error that says nothing about an entity."""
    if code in SEVERE:
        return Severity.ERROR
    return Severity.INFO if code in RECOVERED else Severity.WARNING


def _clients_in(
    exchange: RecordedExchange, known: KnownFacts, takes_all: bool = True
) -> list[tuple[EntityKey, RecordedExchange]]:
    codes = bodies.errors(exchange.response)
    opened = opened_by(exchange) if exchange.line.api == "FETCH" else NONE
    throttle = exchange.response.get("throttleTimeMs") or 0
    if not (takes_all or codes or opened or throttle or exchange.line.is_removed):
        return []
    response = {"codes": list(dict.fromkeys(codes)), "throttle": throttle}
    part = RecordedExchange(exchange.line, {"opened": opened}, response)
    return [(EntityKey("client", exchange.line.name), part)]


CLIENTS = EntityKind(
    "client",
    frozenset(api.name for api in KAFKA_APIS.values()),
    _clients_in,
    lambda key: ObservedClient(name=key.id),
)
NOTABLE = CLIENTS._replace(parts_of=partial(_clients_in, takes_all=False))
"""Without the exchanges that are only counted, which cannot change a finding."""
