"""Members of a group: generations and their causes, departures, refusals.

Source: ClassicGroup, GroupMetadataManager; KIP-62, KIP-345, KIP-394, KIP-800, KIP-848.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import RecordedExchange, RecordedRequest
from brokertwin.recordings.history.finding import EntityFinding, Severity
from brokertwin.recordings.history.group_rules import (
    CAME_BACK,
    DROPPED,
    MAX_POLL,
    REBALANCE,
    UNUSED_ID,
)
from brokertwin.recordings.history.sessions import WINDOW_MS
from brokertwin.recordings.rules import Rule

BEATS = ("CONSUMER_GROUP_HEARTBEAT", "STREAMS_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT")
"""The APIs by which members join, reach another epoch, and leave."""

MEMBER_APIS = ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", *BEATS)
REFUSED = frozenset(
    {
        *(Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.INCONSISTENT_GROUP_PROTOCOL),
        *(Error.INVALID_SESSION_TIMEOUT, Error.FENCED_INSTANCE_ID, Error.GROUP_MAX_SIZE_REACHED),
        *(Error.FENCED_MEMBER_EPOCH, Error.UNRELEASED_INSTANCE_ID, Error.UNSUPPORTED_ASSIGNOR),
        Error.STALE_MEMBER_EPOCH,
    }
)
"""Errors after which a member has to begin again."""

MEMBERS_MAX = 2_000
"""Maximum number of members, and of former members, that are kept."""

GENERATIONS_MAX = 10
"""Maximum number of generations that are kept."""

EVENTS_MAX = 500
"""Maximum number of joins, departures and refusals of a group that are kept."""

STORM = 5
"""Generations within `WINDOW_MS` from which on a group has a rebalance storm."""

NEAR_MS = 3_000
"""How far from the expiry of a member id a join may be answered that waited for it."""

BACK_MS = 600_000
"""A client that joins later than this after it left is another run of the program."""

POLL_TIMEOUT = re.compile(r"poll timeout has expired|max\.poll\.interval", re.IGNORECASE)
"""In the reason of a LeaveGroup: AbstractCoordinator.HeartbeatThread."""


class Departure(msgspec.Struct, frozen=True):
    """A member that left; `reason` is the client's (KIP-800), "" if it gave none."""

    member: str
    line: RecordedRequest
    reason: str = ""
    is_own: bool = True


class RecordedJoin(msgspec.Struct, frozen=True):
    """A JoinGroup that let a member into a generation."""

    member: str
    generation: int
    line: RecordedRequest


class HandedOutId(msgspec.Struct, frozen=True):
    """A member id that a client has to join with, and how long the broker keeps it."""

    member: str
    line: RecordedRequest
    session_timeout_ms: int


class GenerationLine(msgspec.Struct, frozen=True):
    """A response that shows a generation.

    Attributes:
        line: the exchange.
        member: the member.
        joined: whether it is new in the group.
        within: generations within the minute before it, or before an earlier line.
        reason: the reason of the client for joining again.
    """

    line: RecordedRequest
    member: str
    joined: bool
    within: int
    reason: str = ""


class ObservedGeneration(msgspec.Struct):
    """A generation of a group, or an epoch of its members.

    Attributes:
        lines: the responses that show it, in their order.
        members: member id to group.instance.id, from the leader's list; None if not recorded.
        reported: the causes that were reported.
    """

    lines: list[GenerationLine] = field(default_factory=list)
    members: dict[str, str | None] | None = None
    reported: list["RebalanceCause"] = field(default_factory=list)


class RebalanceCause(msgspec.Struct, frozen=True):
    """What began a rebalance: a member that `joined`, `left`, was `dropped` or `joined again`.

    `reason` is that of the client (KIP-800); "" if it gave none.
    """

    what: str
    client: str
    member: str
    reason: str = ""

    @property
    def words(self) -> str:
        """`a left: the consumer is being closed`."""
        return f"{self.client} {self.what}" + (f": {self.reason}" if self.reason else "")


class Membership(msgspec.Struct):
    """The members of a group.

    Attributes:
        group: the group id.
        number: the newest generation or epoch; -1 if none is recorded.
        begun: the request that began the newest generation.
        leader: member id of the leader; "" if unknown.
        members: member id to the request that let it in.
        clients: member id to the last request of its client.
        gone: former members, by member id.
        first_left: the first departure since the newest generation.
        departures: departures, in the order of the responses.
        generations: the newest generations.
        reached: when responses of the last minute showed which generation.
        joins: successful JoinGroups, in the order of the responses.
        new_ids: member ids to join with, with the requests that got them.
        handed_out: those that no client has joined with yet.
        used: member id to when a JoinGroup with it arrived first.
        instances: group.instance.id to its successful JoinGroups.
        statuses: member id to the statuses of a streams group that it got.
        rebalancing: refusals for a rebalance in progress that a later join may explain.
    """

    group: str
    number: int = -1
    begun: RecordedRequest | None = None
    leader: str = ""
    members: dict[str, RecordedRequest] = field(default_factory=dict)
    clients: dict[str, RecordedRequest] = field(default_factory=dict)
    gone: dict[str, Departure] = field(default_factory=dict)
    first_left: RecordedRequest | None = None
    departures: list[Departure] = field(default_factory=list)
    generations: dict[int, ObservedGeneration] = field(default_factory=dict)
    reached: list[tuple[int, int]] = field(default_factory=list)
    joins: list[RecordedJoin] = field(default_factory=list)
    new_ids: list[HandedOutId] = field(default_factory=list)
    handed_out: list[str] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    instances: dict[str, list[RecordedJoin]] = field(default_factory=dict)
    statuses: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    rebalancing: list[tuple[RecordedRequest, RecordedRequest | None]] = field(default_factory=list)

    def index(self, exchange: RecordedExchange) -> None:
        """Note the joins that explain what happened before their responses."""
        line, member = exchange.line, exchange.request.get("memberId")
        if line.api == "JOIN_GROUP":
            if member:
                self.used[member] = min(self.used.get(member, line.time), line.time)
            if exchange.response and not exchange.code:
                joined = exchange.response.get("memberId", "")
                number = exchange.response.get("generationId", -1)
                self.joins.append(RecordedJoin(joined, number, line))
            self._bound()

    def take(self, exchange: RecordedExchange, last: int) -> Iterator[EntityFinding]:
        """Take a request of a member that was not refused.

        Args:
            exchange: the request with its response.
            last: when the recording ends, in ms since 1970.
        """
        line, body, response = exchange.line, exchange.request, exchange.response
        member = body.get("memberId") or response.get("memberId") or ""
        if member and line.api != "LEAVE_GROUP":
            self.clients[member] = line
        if line.api == "JOIN_GROUP":
            yield from self._join(exchange, member, last)
        elif line.api == "LEAVE_GROUP" and not exchange.code:
            for departure in self._leaving(exchange):
                yield from self._leave(departure)
        elif line.api in BEATS and not exchange.code:
            yield from self._beat(exchange, member)
        if line.api not in ("HEARTBEAT", "SYNC_GROUP") or len(self.clients) > MEMBERS_MAX:
            self._bound()

    # Joins

    def _join(self, exchange: RecordedExchange, member: str, last: int) -> Iterator[EntityFinding]:
        line, body, response = exchange.line, exchange.request, exchange.response
        if exchange.code == Error.MEMBER_ID_REQUIRED:
            self.handed_out.append(member)
            kept_ms = body.get("sessionTimeoutMs", 0)
            self.new_ids.append(HandedOutId(member, line, kept_ms))
        if not response or exchange.code:
            return
        number, instance = response["generationId"], body.get("groupInstanceId") or ""
        if instance:
            self.instances.setdefault(instance, []).append(RecordedJoin(member, number, line))
        is_new = not body.get("memberId") or member in self.handed_out
        if member in self.handed_out:
            self.handed_out.remove(member)
        if is_new:
            yield from self._came_back(line, member, body.get("rebalanceTimeoutMs", -1))
        yield from self._waited(line, last)
        if number > self.number:
            yield self._began(number, line)
        self.members[member] = line
        self.gone.pop(member, None)
        if response.get("leader") == member:
            self.leader = member
            listed = {each["memberId"]: each.get("groupInstanceId") for each in response["members"]}
            is_known = len(listed) <= MEMBERS_MAX
            self._generation(number).members = listed if is_known else None
        yield from self._reached(number, line, member, is_new, body.get("reason") or "")
        yield from self._explained(line)

    def _began(self, number: int, line: RecordedRequest) -> EntityFinding:
        new = [
            each.line
            for each in self.joins
            if each.generation == number and each.member not in self.members
        ]
        causes = [*new, *([self.first_left] if self.first_left is not None else [])]
        self.number, self.begun, self.first_left = number, line, None
        said = (
            f"generation {number} begins: a member that was there joined again, or the session of"
            " one ended"
        )
        if causes:
            cause = min(causes, key=lambda each: each.time)
            by = "this request" if cause == line else cause.words
            said = f"generation {number} begins, by {by}"
        return self._noted("generation-began", line, said, facts={"number": number})

    def _waited(self, line: RecordedRequest, last: int) -> Iterator[EntityFinding]:
        """Report that a join waited for a member id that no client used."""
        self.new_ids = [
            each
            for each in self.new_ids
            if each.line.end + each.session_timeout_ms + NEAR_MS >= line.end
        ]
        for each in self.new_ids:
            expires = each.line.end + each.session_timeout_ms
            if (
                self.used.get(each.member, line.end + 1) > line.end
                and line.time + NEAR_MS < expires
                and abs(line.end - expires) <= NEAR_MS
                and last >= line.end + NEAR_MS
            ):
                waited = (line.end - max(line.time, each.line.end)) / 1000
                said = (
                    f"waited {waited:.1f} s for member id {each.member}, handed out to"
                    f" {each.line.words} and never used"
                )
                yield self._finding(
                    "join-waits-for-member-id", line, said, rule=UNUSED_ID, by=(each.line.name,)
                )

    def _came_back(
        self, line: RecordedRequest, member: str, limit_ms: int
    ) -> Iterator[EntityFinding]:
        """Report that a client has left and joined again."""
        gone = [
            each
            for each in self.departures
            if each.is_own
            and each.line.process == line.process
            and each.line.end <= line.time <= each.line.end + BACK_MS
            and (each.line.connection == line.connection or each.member == member)
        ]  # over another connection another instance of the client id may have joined
        if not gone:
            return
        departure = gone[-1]
        place = self.departures.index(departure)
        self.departures[place] = msgspec.structs.replace(departure, is_own=False)
        seconds = (line.time - departure.line.end) / 1000
        reason = f" ({departure.reason})" if departure.reason else ""
        said = f"left by {departure.line.place}{reason}, and came back after {seconds:.1f} s"
        if limit_ms >= 0 and not reason:
            said += f"; its rebalance timeout (max.poll.interval.ms) is {limit_ms} ms"
        severity = Severity.INFO if reason else Severity.WARNING
        yield self._finding("member-came-back", line, said, severity, rule=CAME_BACK)

    # Departures

    def _leaving(self, exchange: RecordedExchange) -> Iterator[Departure]:
        line, body = exchange.line, exchange.request
        became = exchange.response.get("members") or ()
        refused = {each.get("memberId") for each in became if each["errorCode"]}
        for each in body.get("members") or [body]:
            member = each.get("memberId") or ""
            own = self.clients.get(member, line)
            if each.get("memberId") not in refused:
                name = member or each.get("groupInstanceId") or ""
                is_own = own.process == line.process
                yield Departure(name, line, each.get("reason") or "", is_own)

    def _leave(self, departure: Departure) -> Iterator[EntityFinding]:
        line, reason = departure.line, departure.reason
        was_there = self.members.pop(departure.member, None) is not None
        if not self.members:
            self.first_left = None  # no member is left to join again
        elif was_there and self.first_left is None:
            self.first_left = line
        self.gone[departure.member] = departure
        self.departures.append(departure)
        said = f"member {departure.member} has left" + (f": {reason}" if reason else "")
        yield self._noted("member-left", line, said)
        if departure.is_own and POLL_TIMEOUT.search(reason):
            said = f"member {departure.member} left: {reason}"
            yield self._finding("max-poll-exceeded", line, said, rule=MAX_POLL)
        for number in self.generations:
            yield from self._report(number)

    # Heartbeats of the consumer, streams and share protocols

    def _beat(self, exchange: RecordedExchange, member: str) -> Iterator[EntityFinding]:
        line, body, response = exchange.line, exchange.request, exchange.response
        epoch, former = response.get("memberEpoch", -1), body.get("memberEpoch", -1)
        if former < 0:
            yield from self._leave(Departure(member, line))
        elif former == 0:
            yield from self._came_back(line, member, body.get("rebalanceTimeoutMs", -1))
            self.members[member] = line
            yield self._noted("member-joined", line, f"member {member} joins in epoch {epoch}")
        elif epoch > former:
            said = f"member {member} comes from epoch {former} to {epoch}"
            yield self._noted("member-advanced", line, said)
        if former >= 0 and epoch > former:
            yield from self._reached(epoch, line, member, former == 0)
        self.number = max(self.number, epoch)
        statuses = [
            (each["statusCode"], each["statusDetail"]) for each in response.get("status") or ()
        ]
        for code, detail in statuses:
            if (code, detail) not in self.statuses.get(member, ()):
                status = {"code": code, "detail": detail}
                yield self._noted("streams-status", line, f"status {code}: {detail}", facts=status)
        self.statuses.pop(member, None)
        if statuses:
            self.statuses[member] = statuses

    # Generations

    def _generation(self, number: int) -> ObservedGeneration:
        return self.generations.setdefault(number, ObservedGeneration())

    def _reached(
        self, number: int, line: RecordedRequest, member: str, is_new: bool, reason: str = ""
    ) -> Iterator[EntityFinding]:
        """Report a response that shows a generation."""
        generation, since = self._generation(number), line.end - WINDOW_MS
        self.reached = [each for each in self.reached if each[0] >= since]
        self.reached = [*self.reached, (line.end, number)][-EVENTS_MAX:]
        within = len({each for _, each in self.reached})
        within = max([within, *(each.within for each in generation.lines)])
        generation.lines.append(GenerationLine(line, member, is_new, within, reason))
        yield from self._report(number, line)

    def _report(self, number: int, new: RecordedRequest | None = None) -> Iterator[EntityFinding]:
        """Report the causes of a generation at its new line; at all lines if they changed."""
        generation = self.generations[number]
        if not generation.lines:
            return
        causes = self._causes(number)[:MEMBERS_MAX]
        has_changed = causes != generation.reported
        first = generation.lines[0]
        was_dropped = [each for each in generation.reported if each.what == "dropped"]
        for each in generation.lines:
            if has_changed or each.line == new:
                said = ", ".join(dict.fromkeys(cause.words for cause in causes))
                yield self._finding(
                    "rebalances",
                    each.line,
                    f"generation {number}" + (f": {said}" if said else ""),
                    Severity.WARNING if each.within >= STORM else Severity.INFO,
                    part=str(number),
                    rule=REBALANCE,
                    by=tuple(cause.client for cause in causes),
                    facts={
                        "number": number,
                        "first": first.line.place,
                        "within": each.within,
                        "causes": [(c.what, c.client, c.reason) for c in causes],
                    },
                )
        generation.reported = causes
        disproved = [each for each in was_dropped if each not in causes]
        for cause in [*causes, *disproved] if has_changed else ():
            if cause.what == "dropped":
                yield msgspec.structs.replace(
                    self._finding(
                        "member-dropped",
                        first.line,
                        f"not in generation {number}: {cause.member}",
                        part=cause.member,
                        rule=DROPPED,
                        facts={"client": cause.client},
                    ),
                    is_withdrawn=cause not in causes,
                )

    def _causes(self, number: int) -> list[RebalanceCause]:
        """What began a generation.

        A member is new that had no id yet, or had just got one. Others show by the leaders' lists
        of two generations of which one comes right after the other.
        """
        lines = self.generations[number].lines
        begin = min(each.line.end for each in lines)
        former = [n for n, known in self.generations.items() if n < number and known.lines]
        since = self.generations[max(former)].lines[0].line.end if former else -1
        found = [self._cause("joined", each.member) for each in lines if each.joined]
        found += [
            RebalanceCause("left", each.line.name, each.member, each.reason)
            for each in self.departures
            if since <= each.line.end and each.line.time <= begin
        ]
        before = self.generations.get(number - 1, ObservedGeneration()).members
        now = self.generations[number].members
        if before is None or now is None:
            return found
        known = {*(each.member for each in found), *filter(None, now.values())}
        gone = [m for m, i in before.items() if m not in now and not {m, i} & known]
        found += [self._cause("dropped", member) for member in gone if member in self.clients]
        if not found and not gone and before.keys() == now.keys():
            first = min(lines, key=lambda each: each.line.time)
            found.append(self._cause("joined again", first.member, first.reason))
        return found

    def _cause(self, what: str, member: str, reason: str = "") -> RebalanceCause:
        client = self.clients[member].name if member in self.clients else "?"
        return RebalanceCause(what, client, member, reason)

    # Refusals

    def refused(self, exchange: RecordedExchange) -> Iterator[EntityFinding]:
        """Report the errors of a member, with their causes."""
        line, body, response = exchange.line, exchange.request, exchange.response
        own = {exchange.code}
        own |= {e["errorCode"] for e in response.get("members") or () if "errorCode" in e}
        instance = body.get("groupInstanceId") or body.get("instanceId") or ""
        for code in sorted({*bodies.errors(response)}):
            cause = self.because(code, exchange)
            if code not in REFUSED or code not in own:
                if cause:
                    yield self.explained(line, code, cause)
                continue
            is_fenced = code == Error.FENCED_INSTANCE_ID
            held = self.instances.get(instance, []) if is_fenced else []
            taken = [each.line for each in held if each.member != body.get("memberId")]
            said = f"{line.api}: {error_name(code)}"
            said += f"; {instance} is held by {taken[-1].words}" if taken else ""
            yield self._finding(
                "instance-fenced" if is_fenced else "member-refused",
                line,
                said,
                Severity.ERROR if is_fenced else Severity.WARNING,
                part=str(code),
                cause=cause,
                by=tuple(each.name for each in taken),
                code=code,
            )

    def because(self, code: int, exchange: RecordedExchange) -> str:
        """The cause of an error; "" if the recording does not show it."""
        line, body = exchange.line, exchange.request
        if code == Error.ILLEGAL_GENERATION and self.begun is not None:
            requested = body.get("generationId", body.get("generationIdOrMemberEpoch", -1))
            return (
                f"The request is of generation {requested}; {self.number} is there since"
                f" {self.begun.words}."
            )
        if code == Error.REBALANCE_IN_PROGRESS:
            waiting = [e.line for e in self.joins if e.line.end >= line.time]
            cause = _earliest([e for e in waiting if e.time <= line.end], self.first_left)
            self.rebalancing = [*self.rebalancing, (line, cause)][-EVENTS_MAX:]
            return f"A rebalance is under way: {cause.words}." if cause is not None else ""
        if code == Error.FENCED_INSTANCE_ID:
            instance = body.get("groupInstanceId")
            held = self.instances.get(instance or "", ())
            return f"{instance} is held by {held[-1].line.words}." if held else ""
        return self._because_unknown(body) if code == Error.UNKNOWN_MEMBER_ID else ""

    def _because_unknown(self, body: Any) -> str:
        member = body.get("memberId") or ""
        if member in self.gone:
            departure = self.gone[member]
            reason = f" ({departure.reason})" if departure.reason else ""
            return f"The member has left: {departure.line.words}{reason}."
        if member in self.members:
            return (
                f"The member joined by {self.members[member].words}, and its session has ended"
                " since: the broker heard nothing of it for session.timeout.ms, or it did not join"
                " again within max.poll.interval.ms."
            )
        if not member and self.members:
            return (
                "Without a member id offsets are taken only while the group has no members; it has"
                f" one by {next(iter(self.members.values())).words}."
            )
        return f"The recording has no answer that let a member {member or 'without an id'} in."

    def _explained(self, join: RecordedRequest) -> Iterator[EntityFinding]:
        """Complete refusals for a rebalance in progress with a join that waited then."""
        for number, (line, cause) in enumerate(self.rebalancing):
            is_waiting = join.time <= line.end and join.end >= line.time
            if is_waiting and (cause is None or join.time < cause.time):
                self.rebalancing[number] = line, join
                said = f"A rebalance is under way: {join.words}."
                yield self.explained(line, Error.REBALANCE_IN_PROGRESS, said)

    def explained(self, line: RecordedRequest, code: int, cause: str) -> EntityFinding:
        """The cause of an error that is no finding."""
        return self._finding(
            "group-refused", line, "", Severity.NOTE, part=str(code), cause=cause, code=code
        )

    # Findings

    def _noted(
        self, kind: str, line: RecordedRequest, said: str, facts: dict[str, Any] | None = None
    ) -> EntityFinding:
        return self._finding(kind, line, said, Severity.NOTE, part=said, facts=facts)

    def _finding(
        self,
        kind: str,
        line: RecordedRequest,
        said: str,
        severity: Severity = Severity.WARNING,
        *,
        part: str = "",
        rule: Rule | None = None,
        cause: str = "",
        by: tuple[str, ...] = (),
        code: int = Error.NONE,
        facts: dict[str, Any] | None = None,
    ) -> EntityFinding:
        return EntityFinding(
            kind=kind,
            severity=severity,
            subject=f"group {self.group}",
            line=line,
            part=part,
            said=said,
            cause=cause,
            by=by,
            code=code,
            rule=rule,
            facts=facts or {},
        )

    def _bound(self) -> None:
        for by_member in (self.members, self.clients, self.gone, self.used, self.statuses):
            while len(by_member) > MEMBERS_MAX:
                del by_member[next(iter(by_member))]
        while len(self.generations) > GENERATIONS_MAX:
            del self.generations[min(self.generations)]
        for known in self.generations.values():
            del known.lines[:-MEMBERS_MAX]
        while len(self.instances) > MEMBERS_MAX:
            del self.instances[next(iter(self.instances))]
        for joins in self.instances.values():
            del joins[:-GENERATIONS_MAX]
        for events in (self.joins, self.departures, self.new_ids, self.handed_out):
            del events[:-EVENTS_MAX]


def _earliest(joins: list[RecordedRequest], left: RecordedRequest | None) -> RecordedRequest | None:
    causes = [*joins, *([left] if left is not None else [])]
    return min(causes, key=lambda each: each.time, default=None)
