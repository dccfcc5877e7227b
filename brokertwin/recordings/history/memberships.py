"""Members of a group: generations and their causes, departures, refusals.

Source: ClassicGroup, GroupMetadataManager; KIP-62, KIP-345, KIP-394, KIP-800, KIP-848.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    Cause,
    Certainty,
    EpochChanged,
    Finding,
    GenerationBegan,
    GenerationChanged,
    GroupHasMembers,
    GroupRefused,
    InstanceFenced,
    InstanceHeld,
    JoinWaited,
    MaxPollExceeded,
    MemberAdvanced,
    MemberAway,
    MemberCame,
    MemberCameBack,
    MemberDropped,
    MemberExpired,
    MemberGone,
    MemberHasLeft,
    MemberIdUnused,
    MemberJoined,
    MemberJoinedAgain,
    MemberLeft,
    MemberNotInNext,
    MemberRefused,
    MemberWentAway,
    Rebalance,
    RebalanceCause,
    RebalanceUnderWay,
    Severity,
    StreamsStatus,
)
from brokertwin.recordings.history.sessions import WINDOW_MS

BEATS = ("CONSUMER_GROUP_HEARTBEAT", "STREAMS_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT")
"""The APIs by which members join, reach another epoch, and leave."""

MEMBER_APIS = ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", *BEATS)
STAYING = ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT")
"""The APIs by which a classic member shows that it has not left."""

COMMITS = ("OFFSET_COMMIT", "TXN_OFFSET_COMMIT")
REFUSED = frozenset(
    {
        *(Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.INCONSISTENT_GROUP_PROTOCOL),
        *(Error.INVALID_SESSION_TIMEOUT, Error.FENCED_INSTANCE_ID, Error.GROUP_MAX_SIZE_REACHED),
        *(Error.FENCED_MEMBER_EPOCH, Error.UNRELEASED_INSTANCE_ID, Error.UNSUPPORTED_ASSIGNOR),
        Error.STALE_MEMBER_EPOCH,
    }
)
"""Errors after which a member has to begin again."""

NO_COORDINATOR = frozenset(
    {
        *(Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE),
        Error.NOT_COORDINATOR,
    }
)

SILENT_BEATS = 3
"""After so many heartbeat intervals a member of KIP-848 is silent. When it expires is a setting of
the broker or the group (`group.consumer.session.timeout.ms`, 45 s), which no response shows."""

SESSION_MAX_MS = 60_000
"""After so long without a request no member of KIP-848 is in its group: the default of
`group.consumer.max.session.timeout.ms`."""

MEMBERS_MAX = 2_000
"""Maximum number of members, and of former members, that are kept."""

GENERATIONS_MAX = 10
"""Maximum number of generations that are kept."""

EVENTS_MAX = 500
"""Maximum number of joins, departures and refusals of a group that are kept."""

STORM = 5
"""Generations within `WINDOW_MS` from which on a group has a rebalance storm."""

NEAR_MS = 3_000
"""How far from the expiry of a member id the response to a join may be that waited for it."""

BACK_MS = 600_000
"""A client that joins later than this after it left is another run of the program."""

AWAY, LEFT = -2, -1
"""Member epochs of a heartbeat: a static member that may come back, and one that leaves."""

EXPIRY_MS = 100
"""How much earlier than a log shows a session may have begun: a response may be logged late."""

POLL_TIMEOUT = re.compile(r"poll timeout has expired|max\.poll\.interval", re.IGNORECASE)
"""In the reason of a LeaveGroup: AbstractCoordinator.HeartbeatThread."""


class Departure(msgspec.Struct, frozen=True):
    """A member that left.

    Attributes:
        reason: the client's (KIP-800); "" if it gave none.
        is_own: whether the member's client sent it, and has not come back since.
        generation: the last generation or epoch that its requests show; -1 if unknown.
    """

    member: str
    line: RecordedRequest
    reason: str = ""
    is_own: bool = True
    generation: int = -1


class RecordedJoin(msgspec.Struct, frozen=True):
    """A JoinGroup that let a member into a generation.

    Attributes:
        generation: the one of the response.
        made: when the response was made, in ms since 1970; 0 if unknown.
        instance: its group.instance.id; "" if it has none.
        had_id: whether the request had the member id.
    """

    member: str
    generation: int
    line: RecordedRequest
    made: float = 0.0
    instance: str = ""
    had_id: bool = False

    def waits_at(self, refused: RecordedRequest) -> bool:
        answered = min(self.line.end, self.made or math.inf)
        return self.line.time <= refused.end and answered >= refused.time


class HandedOutId(msgspec.Struct, frozen=True):
    """A member id that a client has to join with, and how long the broker keeps it."""

    member: str
    line: RecordedRequest
    session_timeout_ms: int


class ObservedMember(msgspec.Struct):
    """A member.

    Attributes:
        joined: the request that let it in, or showed it first.
        last: its last request that was not refused.
        instance: its group.instance.id; "" if it has none.
        session_timeout_ms: of its JoinGroup; -1 if unknown.
        epoch: the newest generation or member epoch that it is known to have; -1 if none.
        epoch_by: the request that shows it.
        joined_in: the epoch of its first response, until it is known which one it began; else -1.
        is_later: whether it began a later one, because that one was there before.
        is_unknown: whether its coordinator did not know it: its client had not left.
    """

    joined: RecordedRequest
    last: RecordedRequest
    instance: str = ""
    session_timeout_ms: int = -1
    epoch: int = -1
    epoch_by: RecordedRequest | None = None
    joined_in: int = -1
    is_later: bool = False
    is_unknown: bool = False

    def is_silent(self, line: RecordedRequest) -> bool:
        """Whether its session may have ended at a request, because it sent nothing for so long."""
        return line.time - self.last.end >= self.session_timeout_ms - EXPIRY_MS


class GenerationLine(msgspec.Struct, frozen=True):
    """A response that shows a generation.

    Attributes:
        joined: whether it is new in the group and began the generation by that.
        is_static: whether it has a group.instance.id: then it may have joined a stable group.
        within: generations within the minute before it, or before an earlier line.
        reason: the reason of the client for joining again.
        former: the generation or epoch of the member before; -1 if it had none.
    """

    line: RecordedRequest
    member: str
    joined: bool
    within: int
    reason: str = ""
    former: int = -1
    is_static: bool = False


class ObservedGeneration(msgspec.Struct):
    """A generation of a group, or an epoch of its members.

    The facts of the generation before it stay here when that one is dropped.

    Attributes:
        first: the first response that shows it.
        lines: the responses that show it, in their order.
        members: member id to group.instance.id, from the leader's list; None if not recorded.
        led: the leader's JoinGroup that began it, not one of a leader that was restarted later.
        dropped: the members that were reported as not in it.
        former: the newest generation before it that is recorded; -1 if none is.
        since: when that one was shown first, in ms since 1970; -1 if it is not recorded.
        before: its members; None if not recorded.
        under_way: when refusals showed that this one was to come, in ms since 1970; -1 if none did.
        moved: when the coordinator was not there last since the one before it; -1 if it always was.
    """

    first: RecordedRequest | None = None
    lines: list[GenerationLine] = field(default_factory=list)
    members: dict[str, str | None] | None = None
    led: RecordedRequest | None = None
    reported: list[RebalanceCause] = field(default_factory=list)
    dropped: list[MemberDropped] = field(default_factory=list)
    former: int = -1
    since: int = -1
    before: dict[str, str | None] | None = None
    under_way: int = -1
    moved: int = -1


class GroupState(NamedTuple):
    """A group as its coordinator has it.

    Attributes:
        number: the generation or epoch; -1 if none is recorded.
        shown: when a member that is there was heard of last, in ms since 1970; -1 if none is.
        is_empty: whether it has no members; None if the recording does not show all of them.
    """

    number: int
    shown: int
    is_empty: bool | None


class RebalanceRefusal(NamedTuple):
    """A refusal for a rebalance in progress.

    Attributes:
        first: the join or departure that began the rebalance; two if it may have been either.
    """

    line: RecordedRequest
    first: list[RecordedRequest]

    @property
    def causes(self) -> tuple[RebalanceUnderWay, ...]:
        return (RebalanceUnderWay(by=self.first[0]),) if len(self.first) == 1 else ()


class Membership(msgspec.Struct):
    """The members of a group.

    Attributes:
        number: the newest generation or epoch; -1 if none is recorded.
        begun: the request that began the newest generation.
        leader: member id of the leader; "" if unknown.
        members: the members by id.
        dropped: former members that did not leave, by id.
        clients: member id to the last request of its client.
        gone: former members that left, by id.
        replaced: former ids of static members to the request that took their instance.
        departures: departures, in the order of the responses.
        arrivals: when members joined by a heartbeat, in ms since 1970.
        reached: when responses of the last minute showed which generation.
        joins: successful JoinGroups, in the order of the responses.
        new_ids: member ids to join with, with the requests that got them.
        handed_out: those that no client has joined with yet.
        used: member id to when a JoinGroup with it arrived first.
        instances: group.instance.id to the joins of its members.
        statuses: member id to the statuses of a streams group that it got.
        rebalancing: refusals for a rebalance in progress that a later join may explain.
        under_way: generation to when refusals showed the rebalance after it, in ms since 1970.
        has_beats: whether heartbeats of classic members are recorded.
        is_whole: whether all members are recorded; classic groups show that by their leader.
        is_empty: whether the last member is known to have left.
        first_after_none: the newest generation that is known to come after one without members.
        is_modern: whether a member has sent a heartbeat of KIP-848.
        beat_ms: heartbeat interval that the coordinator wants of members of KIP-848; 0 if unknown.
        alive: members whose sessions have not ended as far as all logs are read; None before.
        silent: those of them that may have expired, because they are silent.
        deleted: the request that deleted the group; None if it was not, or exists again.
        late_ms: by how much an event may be later than its recorded time.
        moved: when a member used another connection than before last, in ms since 1970.
        unavailable: when the coordinator said last that it is not there, in ms since 1970.
    """

    group: str
    number: int = -1
    begun: RecordedRequest | None = None
    leader: str = ""
    members: dict[str, ObservedMember] = field(default_factory=dict)
    dropped: dict[str, ObservedMember] = field(default_factory=dict)
    clients: dict[str, RecordedRequest] = field(default_factory=dict)
    gone: dict[str, Departure] = field(default_factory=dict)
    replaced: dict[str, RecordedJoin] = field(default_factory=dict)
    departures: list[Departure] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    generations: dict[int, ObservedGeneration] = field(default_factory=dict)
    reached: list[tuple[int, int]] = field(default_factory=list)
    joins: list[RecordedJoin] = field(default_factory=list)
    new_ids: list[HandedOutId] = field(default_factory=list)
    handed_out: list[str] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    instances: dict[str, list[RecordedJoin]] = field(default_factory=dict)
    statuses: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    rebalancing: list[RebalanceRefusal] = field(default_factory=list)
    under_way: dict[int, int] = field(default_factory=dict)
    has_beats: bool = False
    is_whole: bool = False
    is_empty: bool = False
    first_after_none: int = -1
    is_modern: bool = False
    beat_ms: int = 0
    alive: int | None = None
    silent: int = 0
    deleted: RecordedRequest | None = None
    late_ms: int = 0
    moved: int = 0
    unavailable: int = 0

    def index(self, exchange: RecordedExchange) -> None:
        """Note the joins that explain what happened before their responses."""
        line, member = exchange.line, exchange.request.get("memberId")
        if line.api == "JOIN_GROUP":
            if member:
                self.used[member] = min(self.used.get(member, line.time), line.time)
            if exchange.response and not exchange.code:
                self.joins.append(_join_of(exchange))
            self._bound()

    def state_at(self, time: float, known: KnownFacts) -> GroupState:
        """Return the state at a time, in ms since 1970."""
        return self.state_of(self.alive_at(time, known))

    def state_of(self, alive: Mapping[str, ObservedMember]) -> GroupState:
        """Return the state if the sessions of these members have not ended.

        When the last member goes, the coordinator begins an empty generation
        (`GroupCoordinator.onCompleteJoin`).
        """
        has_gone = bool(self.members) and not alive and self.is_whole
        number = self.number + (1 if has_gone else 0)
        is_empty = self.is_empty or has_gone
        shown = max((each.last.end for each in alive.values()), default=-1)
        return GroupState(number, shown, is_empty or (False if alive else None))

    def alive_at(self, time: float, known: KnownFacts) -> dict[str, ObservedMember]:
        """Return the members whose sessions have not ended at a time, in ms since 1970.

        A classic member expires `session.timeout.ms` after its last request. A coordinator that is
        restarted, or takes over the group, begins all sessions anew.
        """
        found = self.members.items()
        return {name: each for name, each in found if not self._is_expired(each, time, known)}

    @property
    def silence_ms(self) -> int:
        """After how long without a request a member is silent; 0 if that is not known."""
        return SILENT_BEATS * self.beat_ms if self.is_modern else 0

    def silent_at(self, time: float) -> dict[str, ObservedMember]:
        """Return the members that may have expired at a time, in ms since 1970."""
        silence = self.silence_ms
        found = self.members.items() if silence else ()
        return {m: e for m, e in found if e.epoch != AWAY and e.last.end + silence < time}

    def _is_expired(self, member: ObservedMember, time: float, known: KnownFacts) -> bool:
        if member.session_timeout_ms < 0 or not self.has_beats:
            return False
        last = member.last
        begun = max(last.end, self.moved, known.active_since(last.broker, time))
        expires = begun + member.session_timeout_ms
        # another broker may be the coordinator by now
        return expires < time and known.is_covered_by_all(last.end, expires)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Take a request of a member that was not refused."""
        line, body, response = exchange.line, exchange.request, exchange.response
        member = body.get("memberId") or response.get("memberId") or ""
        if member and line.api != "LEAVE_GROUP":
            self.clients[member] = line
        if line.api == "HEARTBEAT" or line.api == "SYNC_GROUP":
            self.has_beats = self.has_beats or line.api == "HEARTBEAT"
            # a coordinator that waits for a member to join again prolongs its session
            is_waiting = line.api == "HEARTBEAT" and exchange.code == Error.REBALANCE_IN_PROGRESS
            if not exchange.code or is_waiting:
                self.seen(member, body.get("generationId", -1), line)
        if line.api == "JOIN_GROUP":
            yield from self._join(exchange, member, known.last)
        elif line.api == "LEAVE_GROUP" and not exchange.code:
            for departure in self._leaving(exchange):
                yield from self._leave(departure)
        elif line.api in BEATS and not exchange.code:
            yield from self._beat(exchange, member, known)
        if line.api not in ("HEARTBEAT", "SYNC_GROUP") or len(self.clients) > MEMBERS_MAX:
            self._bound()

    def seen(self, member: str, generation: int, line: RecordedRequest) -> None:
        """Note a request of a member that the coordinator accepted."""
        found = self.members.get(member)
        if found is not None:
            self._note_connection(found, line)
            found.last = line
            if generation > found.epoch:
                found.epoch, found.epoch_by = generation, line
        elif generation >= 0 and member in self.handed_out:
            self.handed_out.remove(member)  # its JoinGroup is not recorded

    # Joins

    def _join(self, exchange: RecordedExchange, member: str, last: int) -> Iterator[Finding]:
        line, body, response = exchange.line, exchange.request, exchange.response
        if exchange.code == Error.MEMBER_ID_REQUIRED:
            self.handed_out.append(member)
            kept_ms = body.get("sessionTimeoutMs", 0)
            self.new_ids.append(HandedOutId(member, line, kept_ms))
        if not response or exchange.code:
            return
        number, instance = response.get("generationId", -1), body.get("groupInstanceId") or ""
        is_later = self.begun is not None and line.time > self.begun.end
        if number < self.number and is_later and not self.is_modern:
            self._begin_anew()
        is_new = not body.get("memberId") or member in self.handed_out
        join = _join_of(exchange)
        listed = _listed(response)
        has_list = bool(listed) and not response.get("skipAssignment")
        if instance:
            # without the list before, it may replace one that joined before the log begins
            if self.is_empty or self._drop_expired(number, line):
                self.first_after_none = number
            is_free = not self._takes_over(join) and number in (1, self.first_after_none)
            before = self.generations.get(number - 1, ObservedGeneration()).members
            is_free = is_free or (before is not None and instance not in before.values())
            is_new = is_new and is_free
        if not self.is_modern:
            known = self.generations.get(number, ObservedGeneration())
            shown = [each.line for each in known.lines] if is_new and not instance else []
            if has_list and known.led is not None and known.members != listed:
                shown.append(known.led)
            if any(each.end + self.late_ms + EXPIRY_MS < line.time for each in shown):
                self._begin_anew()  # a new member, or another list, begins another generation
        if is_new:
            yield from self._came_back(line, member, body.get("rebalanceTimeoutMs", -1))
        yield from self._waited(line, last)
        if number > self.number:
            yield self._began(number, line)
        if member in self.handed_out:
            self.handed_out.remove(member)
        timeout_ms = body.get("sessionTimeoutMs", -1)
        self._enter(member, ObservedMember(line, line, instance, timeout_ms, number, line))
        if response.get("leader") == member:
            self.leader = member
            is_known = len(listed) <= MEMBERS_MAX
            generation = self._generation(number, line)
            generation.members = listed if is_known else None
            if has_list:
                generation.led = generation.led or line
            if number == self.number:
                self.is_whole = is_known
                self._list(listed, number, line)
        reason = body.get("reason") or ""
        yield from self._reached(
            number, line, member, is_new, number - 1, reason, is_static=bool(instance)
        )
        yield from self._explained(join)

    def _begin_anew(self) -> None:
        """Forget the generations of a group that was removed and made again."""
        self.number, self.begun, self.leader = -1, None, ""
        self.generations.clear()
        self.under_way.clear()
        self.departures.clear()
        self.members.clear()
        self.is_whole = False

    def _has_joined(self, shown: GenerationLine, generation: ObservedGeneration) -> bool:
        """Return whether a new member came before its generation began.

        A static member that is restarted gets the generation of a stable group.
        """
        if not shown.joined or not shown.is_static or shown.line.api in BEATS:
            return shown.joined
        led = generation.led
        return led is not None and shown.line.time + self.late_ms <= led.end

    def _drop_expired(self, number: int, line: RecordedRequest) -> bool:
        """Drop static members that expired before a generation: new ones do not replace them."""
        former = self.generations.get(number - 2)
        if self.number != number - 2 or former is None or former.members is None:
            return False
        have_expired = self._have_expired(former.members, line)
        if have_expired:
            self.dropped |= self.members
            self.members.clear()
            self.instances.clear()
        return have_expired

    def _note_connection(self, member: ObservedMember, line: RecordedRequest) -> None:
        """Note a request over another connection: the coordinator may be another, or restarted."""
        if (member.last.broker, member.last.connection) != (line.broker, line.connection):
            self.moved = max(self.moved, line.time)

    def _enter(self, member: str, new: ObservedMember) -> None:
        if (known := self.members.get(member)) is not None:
            self._note_connection(known, new.last)
        self.members[member] = new
        self.is_empty, self.deleted = False, None
        for former in (self.gone, self.dropped, self.replaced):
            former.pop(member, None)

    def _list(self, listed: dict[str, str | None], number: int, line: RecordedRequest) -> None:
        """Take the leader's list of all members of a generation."""
        joined = {each.member for each in self.joins if each.generation >= number}
        for member in [each for each in self.members if each not in {*listed, *joined}]:
            self.dropped[member] = self.members.pop(member)
        for member, instance in listed.items():
            if member not in self.members and member not in self.replaced:
                new = ObservedMember(line, line, instance or "", -1, number, line)
                self.members[member] = new

    def _takes_over(self, join: RecordedJoin) -> bool:
        """Note the member of an instance id; True if it replaces a former one."""
        held = self.instances.setdefault(join.instance, [])
        former = {each.member for each in held}
        former |= {m for m, e in self.members.items() if e.instance == join.instance}
        former.discard(join.member)
        held.append(join)
        for member in former:
            self.replaced[member] = join
            self.members.pop(member, None)
            for generation in self.generations.values():
                for listed in (generation.members, generation.before):
                    if listed is not None and member in listed:
                        listed[join.member] = listed.pop(member)
        return bool(former)

    def _began(self, number: int, line: RecordedRequest) -> Finding:
        new = [
            each.line
            for each in self.joins
            if each.generation == number
            and not each.instance  # one that is restarted begins no generation
            and (not each.had_id or each.member in self.handed_out)
        ]
        left = [each.line for each in self._left_before(number, line.end)]
        causes = [*new, *left]
        self.number, self.begun = number, line
        by = min(causes, key=lambda each: each.time, default=None)
        return GenerationBegan(group=self.group, line=line, number=number, by_request=by)

    def _waited(self, line: RecordedRequest, last: int) -> Iterator[Finding]:
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
                yield JoinWaited(
                    group=self.group,
                    line=line,
                    severity=Severity.WARNING,
                    causes=(MemberIdUnused(member=each.member, by=each.line),),
                    certainty=Certainty.DERIVED,
                    waited_ms=line.end - max(line.time, each.line.end),
                )

    def _came_back(self, line: RecordedRequest, member: str, limit_ms: int) -> Iterator[Finding]:
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
        yield MemberCameBack(
            group=self.group,
            line=line,
            severity=Severity.INFO if departure.reason else Severity.WARNING,
            left=departure.line,
            reason=departure.reason,
            max_poll_ms=limit_ms,
        )

    # Departures

    def _leaving(self, exchange: RecordedExchange) -> Iterator[Departure]:
        line, body = exchange.line, exchange.request
        became = exchange.response.get("members") or ()
        refused = {
            (each.get("memberId"), each.get("groupInstanceId"))
            for each in became
            if each["errorCode"]
        }
        for each in body.get("members") or [body]:
            member, instance = each.get("memberId") or "", each.get("groupInstanceId") or ""
            if (each.get("memberId"), each.get("groupInstanceId")) in refused:
                continue
            if not member and instance:
                held = [m for m, e in self.members.items() if e.instance == instance]
                member = held[-1] if held else instance
            own = self.clients.get(member, line)
            is_own = own.process == line.process
            known = self.members.get(member) or self.dropped.get(member)
            epoch = known.epoch if known is not None else -1
            yield Departure(member, line, each.get("reason") or "", is_own, epoch)

    def _leave(self, departure: Departure) -> Iterator[Finding]:
        line, reason = departure.line, departure.reason
        was_there = self.members.pop(departure.member, None) is not None
        self.gone[departure.member] = departure
        member = departure.member
        # with its id alone, it was no member
        if was_there or member in self.dropped or member not in self.handed_out:
            self.departures.append(departure)
            yield MemberGone(group=self.group, line=line, member=member, reason=reason)
        if departure.is_own and POLL_TIMEOUT.search(reason):
            severity, group = Severity.WARNING, self.group
            yield MaxPollExceeded(
                group=group, line=line, severity=severity, member=member, reason=reason
            )
        for number in self.generations:
            yield from self._report(number)
        if was_there and not self.members and self.is_whole:
            self.number, self.begun, self.is_empty = self.number + 1, line, True

    def _left_before(self, number: int, begin: int) -> list[Departure]:
        """The departures that began a generation.

        A member that left was in the generation before it, by its requests or by the leader's
        list. Without these, the departure came after the generation before it was shown.
        """
        generation = self.generations.get(number, ObservedGeneration())
        former, since = generation.former, generation.since
        if not generation.lines:  # it begins now
            former = max((n for n in self.generations if n < number), default=-1)
            first = self.generations[former].first if former >= 0 else None
            since = first.end if first is not None else -1
        of_lines = [each.former for each in generation.lines if each.former > 0]
        low = max([former, *of_lines]) if (former >= 0 or of_lines) else number - 1
        before = generation.before if former == number - 1 else None
        departures = []
        for each in self.departures:
            if each.line.time > begin:
                continue
            if each.line.api in BEATS:
                if self._is_of_epoch(each, number, former, since):
                    departures.append(each)
                continue
            was_in = each.member in (before or ()) and each.member not in (generation.members or ())
            was_in = was_in and each.line.end >= since >= 0
            if each.generation >= 0:
                is_between = each.generation == number - 1
            elif since >= 0:
                is_between = since <= each.line.time and each.generation < number
            else:
                is_between = 0 <= low <= each.generation < number
            if is_between or was_in:
                departures.append(each)
        return departures

    def _is_of_epoch(self, departure: Departure, number: int, former: int, since: int) -> bool:
        """Return whether a departure began an epoch or one after `former`, which no response shows.

        Each join and each departure begins one, in their order. The first response with an epoch
        may come after the begin of the next one.
        """
        time = departure.line.time
        if not 0 <= since <= time or not departure.generation < number:
            return False
        known = self.generations.get(number, ObservedGeneration()).lines
        if any(each.line.time < time for each in known):
            return False
        others = [*self.arrivals, *(each.line.time for each in self.departures)]
        return sum(since <= each < time for each in others) < number - former

    # Heartbeats of the consumer, streams and share protocols

    def _beat(
        self, exchange: RecordedExchange, member: str, facts: KnownFacts
    ) -> Iterator[Finding]:
        line, body, response = exchange.line, exchange.request, exchange.response
        epoch, former = response.get("memberEpoch", -1), body.get("memberEpoch", -1)
        instance = body.get("instanceId") or ""
        known, self.is_modern = self.members.get(member), True
        self.beat_ms = response.get("heartbeatIntervalMs") or self.beat_ms
        if former == AWAY:
            if known is not None:
                known.epoch, known.epoch_by, known.last = AWAY, line, line
            yield MemberAway(group=self.group, line=line, member=member, instance=instance)
            return
        if former <= LEFT:
            before = known.epoch if known is not None else -1
            yield from self._leave(Departure(member, line, generation=before))
            return
        is_new = former == 0 and known is None
        if former == 0:
            join = RecordedJoin(member, epoch, line, instance=instance)
            has_replaced = bool(instance) and self._takes_over(join)
            # new groups have epoch 0 in older brokers, and 1 in newer ones
            is_first = epoch == 1 or (epoch == 2 and self.number < 0)
            self.is_whole = self.is_whole or (is_first and not instance)
            # else it may have joined before the log begins, or replace a static member
            is_new = (
                is_new and not has_replaced and (self.is_whole or self._is_covered(line, facts))
            )
            yield from self._came_back(line, member, body.get("rebalanceTimeoutMs", -1))
            self._enter(member, ObservedMember(line, line, instance, -1, epoch, line))
            self.arrivals.append(line.time)
            yield MemberCame(group=self.group, line=line, member=member, epoch=epoch)
        elif known is None:
            self._enter(member, ObservedMember(line, line, instance, -1, epoch, line))
        else:
            self.seen(member, epoch, line)
        if epoch > former > 0:
            yield MemberAdvanced(
                group=self.group, line=line, member=member, former=former, epoch=epoch
            )
        if is_new:
            self.members[member].joined_in = epoch
            self.members[member].is_later = self._was_shown(epoch, member, line)
        began = self._began_by(member, epoch, _has_assignment(response))
        if epoch > former:
            yield from self._reached(epoch, line, member, began, former)
        elif began and epoch in self.generations:
            lines = self.generations[epoch].lines
            for place, each in enumerate(lines):
                if each.member == member and each.former == 0:
                    lines[place] = msgspec.structs.replace(each, joined=True)
            yield from self._report(epoch)
        if epoch > self.number:
            self.number, self.begun = epoch, line
        yield from self._streams(line, member, response.get("status") or ())

    def _streams(
        self, line: RecordedRequest, member: str, listed: Iterable[dict[str, Any]]
    ) -> Iterator[Finding]:
        """Report the statuses of a Streams member that its last response did not have."""
        statuses = [(each["statusCode"], each["statusDetail"]) for each in listed]
        former = self.statuses.pop(member, ())
        for code, detail in statuses:
            if (code, detail) not in former:
                yield StreamsStatus(group=self.group, line=line, code_of_status=code, detail=detail)
        if statuses:
            self.statuses[member] = statuses

    def _is_covered(self, line: RecordedRequest, known: KnownFacts) -> bool:
        """Return whether each member that the coordinator has at a request is recorded."""
        since = line.time - SESSION_MAX_MS
        return self.unavailable < since and known.is_covered_by_all(since, line.time)

    def _was_shown(self, epoch: int, member: str, line: RecordedRequest) -> bool:
        """Return whether an epoch was there before a request, by responses to other members."""
        known = self.generations.get(epoch, ObservedGeneration()).lines
        shown = [each.line for each in known if each.member != member]
        others = [each for name, each in self.members.items() if name != member]
        shown += [e.epoch_by for e in others if e.epoch >= epoch and e.epoch_by is not None]
        return any(each.end + self.late_ms <= line.time for each in shown)

    def _began_by(self, member: str, epoch: int, has_assignment: bool) -> bool:
        """Return whether a new member is now known to have begun an epoch.

        A join begins an epoch, but a coordinator computes assignments only now and then (KIP-1263).
        So the first response may have an older epoch, in which the member has no partitions.
        """
        found = self.members.get(member)
        if found is None or found.joined_in < 0:
            return False
        began = found.is_later if epoch > found.joined_in else has_assignment and not found.is_later
        if began or epoch > found.joined_in:
            found.joined_in = -1
        return began

    # Generations

    def _generation(self, number: int, line: RecordedRequest) -> ObservedGeneration:
        generation = self.generations.setdefault(number, ObservedGeneration(line))
        generation.under_way = self.under_way.get(number - 1, generation.under_way)
        earlier = max((n for n in self.generations if n < number), default=-1)
        if earlier >= 0 and earlier >= generation.former:
            before = self.generations[earlier]
            generation.former, generation.before = earlier, before.members
            generation.since = before.first.end if before.first is not None else -1
        if generation.since < self.unavailable <= line.end:
            generation.moved = self.unavailable
        return generation

    def _reached(
        self,
        number: int,
        line: RecordedRequest,
        member: str,
        is_new: bool,
        former: int,
        reason: str = "",
        *,
        is_static: bool = False,
    ) -> Iterator[Finding]:
        """Report a response that shows a generation."""
        generation, since = self._generation(number, line), line.end - WINDOW_MS
        self.reached = [each for each in self.reached if each[0] >= since]
        self.reached = [*self.reached, (line.end, number)][-EVENTS_MAX:]
        within = len({each for _, each in self.reached})
        within = max([within, *(each.within for each in generation.lines)])
        generation.lines.append(
            GenerationLine(line, member, is_new, within, reason, former, is_static)
        )
        yield from self._report(number, line)

    def _report(self, number: int, new: RecordedRequest | None = None) -> Iterator[Finding]:
        generation = self.generations[number]
        if not generation.lines or generation.first is None:
            return
        causes = self._causes(number)[:MEMBERS_MAX]
        has_changed = causes != generation.reported
        if has_changed or new is not None:
            within = max(each.within for each in generation.lines)
            yield Rebalance(
                group=self.group,
                line=generation.first,
                severity=Severity.WARNING if within >= STORM else Severity.INFO,
                causes=tuple(causes),
                certainty=Certainty.SEEN if causes else Certainty.UNKNOWN,
                number=number,
                former=generation.former,
                lines=tuple(each.line for each in generation.lines),
                within=within,
            )
        generation.reported = causes
        dropped = [each for each in causes if isinstance(each, MemberDropped)]
        dropped = dropped or self._before_empty(number, generation.first)
        disproved = [each for each in generation.dropped if each not in dropped]
        for each in [*dropped, *disproved] if dropped != generation.dropped else ():
            yield MemberNotInNext(
                group=self.group,
                line=generation.first,
                severity=Severity.WARNING,
                certainty=Certainty.DERIVED,
                client=each.client,
                member=each.member,
                number=number,
                is_withdrawn=each not in dropped,
            )
        generation.dropped = dropped

    def _causes(self, number: int) -> list[RebalanceCause]:
        """What began a generation.

        A member is new that had no id yet, or had just got one. Others show by the leaders' lists
        of two generations of which one comes right after the other.
        """
        generation = self.generations[number]
        lines = generation.lines
        begin = min(each.line.end for each in lines)
        found: list[RebalanceCause] = [
            MemberJoined(member=each.member, client=self._client(each.member))
            for each in lines
            if self._has_joined(each, generation)
            and (each.line.api not in BEATS or each.former in (0, generation.former))
        ]
        found += [
            MemberLeft(member=each.member, client=each.line.name, by=each.line, reason=each.reason)
            for each in self._left_before(number, begin)
        ]
        before = generation.before if generation.former == number - 1 else None
        now = generation.members
        if before is None or now is None:
            return found
        until = begin + self.late_ms
        left = {each.member for each in self.departures if each.line.time <= until}
        known = {*(each.member for each in found), *left, *filter(None, now.values())}
        gone = [m for m, i in before.items() if m not in now and not {m, i} & known]
        found += [
            MemberDropped(member=member, client=self._client(member))
            for member in gone
            if member in self.clients
            and member not in self.replaced
            and self._has_stayed(member, generation)
        ]
        is_same = before.keys() == now.keys() and not any(now.values())
        if not found and not gone and is_same:  # a static member may have been restarted
            first = min(lines, key=lambda each: each.line.time)
            begun = first.line.time + self.late_ms
            others = [each.line.time for each in lines if each.member != first.member]
            if generation.under_way >= 0:
                others.append(generation.under_way)
            if all(begun < each for each in others):  # else it is unknown who was the first
                found.append(self._again(first))
        return found

    def _before_empty(self, number: int, line: RecordedRequest) -> list[MemberDropped]:
        """The members of the last generation but one, if all left or expired, and none joined.

        No response shows a generation without members.
        """
        generation = self.generations[number]
        before, now = generation.before, generation.members
        if generation.former != number - 2 or not before or now is None:
            return []
        if before.keys() & now.keys() or not self._have_expired(before, line):
            return []
        expired = [member for member in before if member not in self.gone]
        if not all(self._has_stayed(member, generation) for member in expired):
            return []
        return [MemberDropped(member=each, client=self._client(each)) for each in expired]

    def _has_stayed(self, member: str, generation: ObservedGeneration) -> bool:
        """Return whether a member that no request let leave has not left before a generation.

        A coordinator that stops may leave the request of a departure without a response.
        """
        known = self.members.get(member) or self.dropped.get(member)
        if generation.moved < 0 or known is None or generation.first is None:
            return generation.moved < 0
        by_next = known.last.broker == generation.first.broker
        return known.is_unknown or (by_next and known.last.end > generation.moved)

    def _have_expired(self, members: Iterable[str], line: RecordedRequest) -> bool:
        """Return whether the sessions of members ended before a request, unless they left."""
        known = {**self.dropped, **self.members}
        return all(
            member in known
            and member not in self.replaced
            and (known[member].is_unknown or self._has_expired(known[member], line))
            for member in members
            if member not in self.gone
        )

    def _has_expired(self, member: ObservedMember, line: RecordedRequest) -> bool:
        is_same = member.last.broker == line.broker
        return is_same and member.session_timeout_ms > 0 and member.is_silent(line)

    def _note_rebalance(self, exchange: RecordedExchange) -> None:
        """Note a refusal that shows that a rebalance had begun before members joined for it.

        A coordinator that cannot store the assignment of a SyncGroup begins one by itself
        (`GroupMetadataManager.classicGroupSyncToClassicGroup`).
        """
        line, code = exchange.line, exchange.code
        if line.api == "HEARTBEAT" and code == Error.REBALANCE_IN_PROGRESS:
            time = line.time
        elif line.api == "SYNC_GROUP" and code and code not in REFUSED:
            time = line.end - (0 if code == Error.REBALANCE_IN_PROGRESS else EXPIRY_MS)
        else:
            return
        of = exchange.request.get("generationId", -1)
        self.under_way[of] = min(time, self.under_way.get(of, time))
        while len(self.under_way) > GENERATIONS_MAX:
            del self.under_way[min(self.under_way)]

    def _again(self, shown: GenerationLine) -> MemberJoinedAgain:
        client = self._client(shown.member)
        return MemberJoinedAgain(member=shown.member, client=client, reason=shown.reason)

    def _client(self, member: str) -> str:
        return self.clients[member].name if member in self.clients else "?"

    # Refusals

    def refused(self, exchange: RecordedExchange) -> Iterator[Finding]:
        line, body, response = exchange.line, exchange.request, exchange.response
        self._note_rebalance(exchange)
        if exchange.code in NO_COORDINATOR:
            self.unavailable = line.end
        own = {exchange.code}
        own |= {e["errorCode"] for e in response.get("members") or () if "errorCode" in e}
        instance = body.get("groupInstanceId") or body.get("instanceId") or ""
        member = body.get("memberId") or ""
        if exchange.code == Error.UNKNOWN_MEMBER_ID and line.api in STAYING:
            yield from self._note_unknown(member)
        if exchange.code == Error.FENCED_MEMBER_EPOCH and member not in self.members:
            self._enter(member, ObservedMember(line, line, instance))  # the coordinator has it
        for code in sorted({*bodies.errors(response)}):
            causes = self.causes(code, exchange)
            if code not in REFUSED or code not in own:
                if causes:
                    yield self.explained(line, code, causes)
                continue
            if code == Error.FENCED_INSTANCE_ID:
                yield InstanceFenced(
                    group=self.group,
                    line=line,
                    severity=Severity.ERROR,
                    causes=causes,
                    certainty=certainty_of(causes),
                    code=code,
                    member=member,
                    instance=instance,
                )
            else:
                yield MemberRefused(
                    group=self.group,
                    line=line,
                    severity=Severity.WARNING,
                    causes=causes,
                    certainty=certainty_of(causes),
                    code=code,
                    member=member,
                )

    def _note_unknown(self, member: str) -> Iterator[Finding]:
        known = self.members.get(member) or self.dropped.get(member)
        if known is not None:
            known.is_unknown = True
            for number in self.generations:
                yield from self._report(number)

    def causes(self, code: int, exchange: RecordedExchange) -> tuple[Cause, ...]:
        """The causes of an error; none if the recording does not show them."""
        line, body = exchange.line, exchange.request
        member = body.get("memberId") or ""
        requested = body.get("generationIdOrMemberEpoch", body.get("generationId", -1))
        requested = body.get("memberEpoch", requested)
        if code == Error.ILLEGAL_GENERATION:
            if self.begun is None or requested == self.number:
                return ()
            by = self.begun
            return (GenerationChanged(requested=requested, number=self.number, by=by),)
        if code == Error.REBALANCE_IN_PROGRESS:
            if self.late_ms:
                return ()  # whether a join still waited is a matter of milliseconds
            left = [e.line for e in self.departures if self._is_of_newest(e)]
            refusal = RebalanceRefusal(line, _first([*self._waiting_at(line), *left]))
            self.rebalancing = [*self.rebalancing, refusal][-EVENTS_MAX:]
            return refusal.causes
        if code in (Error.FENCED_INSTANCE_ID, Error.UNRELEASED_INSTANCE_ID):
            return self._held(line, body)
        if code in (Error.STALE_MEMBER_EPOCH, Error.FENCED_MEMBER_EPOCH):
            return self._other_epoch(member, requested)
        if code == Error.UNKNOWN_MEMBER_ID:
            return self._unknown_member(exchange, member)
        return ()

    def _waiting_at(self, refused: RecordedRequest) -> list[RecordedRequest]:
        """The joins that waited at a refusal and may have begun the rebalance."""
        return [e.line for e in self.joins if e.waits_at(refused) and self._may_begin(e)]

    def _may_begin(self, join: RecordedJoin) -> bool:
        """Return whether a join came before the rebalance is known to be under way.

        A log that begins within a rebalance does not have the request that began it.
        """
        before = self.generations.get(join.generation - 1)
        if before is None or before.first is None or before.first.end > join.line.time:
            return False
        return join.line.time <= self.under_way.get(join.generation - 1, join.line.time)

    def _is_of_newest(self, departure: Departure) -> bool:
        """Return whether a member left the newest generation."""
        if departure.generation >= 0:
            return departure.generation == self.number
        return self.begun is not None and departure.line.end >= self.begun.end

    def _held(self, line: RecordedRequest, body: Any) -> tuple[Cause, ...]:
        instance = body.get("groupInstanceId") or body.get("instanceId") or ""
        held = self.instances.get(instance, [])
        if line.api == "JOIN_GROUP" and not body.get("memberId"):
            # it took the instance itself, until another join came that may have no line
            near = line.end - EXPIRY_MS - self.late_ms, line.end + self.late_ms
            held = [e for e in self.joins if e.instance == instance]
            held = [e for e in held if near[0] <= e.line.time <= near[1]]
        own = [n for n, each in enumerate(held) if each.member == body.get("memberId")]
        held = held[own[-1] + 1 :] if own else held  # a former holder does not fence it
        if not held:
            return ()
        return (InstanceHeld(instance=instance, member=held[-1].member, by=held[-1].line),)

    def _other_epoch(self, member: str, requested: int) -> tuple[Cause, ...]:
        known = self.members.get(member)
        if known is None or known.epoch_by is None or known.epoch == requested:
            return ()
        if known.epoch == AWAY:
            return (MemberWentAway(member=member, by=known.epoch_by),)
        return (EpochChanged(requested=requested, number=known.epoch, by=known.epoch_by),)

    def _unknown_member(self, exchange: RecordedExchange, member: str) -> tuple[Cause, ...]:
        line = exchange.line
        if not member:
            found = self._former_member(line)
            own = {e for e, by in self.clients.items() if by.process == line.process}
            others = [e.joined for m, e in self.members.items() if m not in own]
            if line.api in COMMITS and others:
                return (*found, GroupHasMembers(member=others[-1]))
            return found
        if member in self.gone:
            departure = self.gone[member]
            return (MemberHasLeft(member=member, by=departure.line, reason=departure.reason),)
        if member in self.replaced:
            if exchange.request.get("groupInstanceId") and not self.is_modern:
                return ()  # while the id is held, a classic group returns FENCED_INSTANCE_ID
            by = self.replaced[member]
            held = [i for i, joins in self.instances.items() if by in joins]
            instance = held[0] if held else "its group.instance.id"
            return (InstanceHeld(instance=instance, member=by.member, by=by.line),)
        return self._expired(member, line)

    def _expired(self, member: str, line: RecordedRequest) -> tuple[Cause, ...]:
        known = self.members.get(member) or self.dropped.get(member)
        if known is None or not known.is_silent(line) or not self._was_there(known, line):
            return ()  # the coordinator has heard of it since, or may have forgotten it
        if self.unavailable > known.last.end:
            return ()  # sessions begin anew with the next coordinator
        return (
            MemberExpired(
                member=member,
                client=self._client(member),
                last=known.last,
                silent_ms=line.time - known.last.end,
                session_timeout_ms=known.session_timeout_ms,
            ),
        )

    def _was_there(self, member: ObservedMember, line: RecordedRequest) -> bool:
        """Return whether the coordinator was there since it heard of a member, by a connection.

        One that is restarted, or takes over the group, forgets members that are not stored.
        """
        last = member.last
        if last.broker != line.broker or last.connection == line.connection:
            return last.broker == line.broker
        expires = last.end + max(member.session_timeout_ms, 0)
        return any(
            each.joined.connection == each.last.connection
            and each.joined.end <= last.end
            and each.last.time >= expires
            for each in self.members.values()
            if each.last.broker == line.broker
        )

    def _former_member(self, line: RecordedRequest) -> tuple[Cause, ...]:
        """The member that a request without a member id belonged to, by client and connection."""
        left = [
            e for e in self.departures if e.line.process == line.process and e.line.end <= line.time
        ]
        left = [e for e in left if e.line.connection == line.connection] or left
        known = {**self.dropped, **self.members}
        own = [m for m in known if known[m].last.process == line.process]
        own = [m for m in own if known[m].last.connection == line.connection] or own
        if len(own) == 1 and (not left or left[-1].line.end < known[own[0]].last.end):
            return self._expired(own[0], line)
        if len({e.member for e in left}) == 1 and not own:
            departure = left[-1]
            member, reason = departure.member, departure.reason
            by = departure.line
            return (MemberHasLeft(member=member, by=by, reason=reason, is_by_client=True),)
        return ()

    def _explained(self, join: RecordedJoin) -> Iterator[Finding]:
        """Complete refusals for a rebalance in progress with a join that waited then."""
        for number, former in enumerate(self.rebalancing):
            line, first = former
            if first and first[0].time < join.line.time:
                continue
            if not join.waits_at(line) or not self._may_begin(join):
                continue
            new = RebalanceRefusal(line, _first([*first, *self._waiting_at(line)]))
            self.rebalancing[number] = new
            if new.causes != former.causes:
                yield self.explained(line, Error.REBALANCE_IN_PROGRESS, new.causes)

    def explained(self, line: RecordedRequest, code: int, causes: tuple[Cause, ...]) -> Finding:
        certainty = certainty_of(causes)
        return GroupRefused(
            group=self.group, line=line, causes=causes, certainty=certainty, code=code
        )

    def _bound(self) -> None:
        by_member: tuple[dict[str, Any], ...] = (
            *(self.members, self.clients, self.gone, self.used, self.statuses),
            *(self.dropped, self.replaced),
        )
        for found in by_member:
            while len(found) > MEMBERS_MAX:
                del found[next(iter(found))]
        while len(self.generations) > GENERATIONS_MAX:
            del self.generations[min(self.generations)]
        for known in self.generations.values():
            del known.lines[:-MEMBERS_MAX]
        while len(self.instances) > MEMBERS_MAX:
            del self.instances[next(iter(self.instances))]
        for joins in self.instances.values():
            del joins[:-GENERATIONS_MAX]
        for events in (self.joins, self.departures, self.arrivals, self.new_ids, self.handed_out):
            del events[:-EVENTS_MAX]


def certainty_of(causes: tuple[Cause, ...]) -> Certainty:
    """How the causes of a refusal are known."""
    if not causes:
        return Certainty.UNKNOWN
    is_derived = any(isinstance(each, MemberExpired) for each in causes)
    return Certainty.DERIVED if is_derived else Certainty.SEEN


def _first(of: Sequence[RecordedRequest]) -> list[RecordedRequest]:
    """Return the first request to arrive, or two if those of several clients arrived at once."""
    time = min((each.time for each in of), default=0)
    found: dict[tuple[str, str], RecordedRequest] = {}
    for each in of:
        if each.time == time:
            found.setdefault(each.process, each)
    return [*found.values()][:2]


def _join_of(exchange: RecordedExchange) -> RecordedJoin:
    body, response = exchange.request, exchange.response
    return RecordedJoin(
        response.get("memberId", ""),
        response.get("generationId", -1),
        exchange.line,
        exchange.made,
        body.get("groupInstanceId") or "",
        bool(body.get("memberId")),
    )


def _listed(response: Any) -> dict[str, str | None]:
    members = response.get("members") or ()
    return {each["memberId"]: each.get("groupInstanceId") for each in members}


def _has_assignment(response: Any) -> bool:
    """Return whether a heartbeat's response gives the member partitions or tasks."""
    given = [response.get("assignment") or {}, response]
    kinds = "topicPartitions", "activeTasks", "standbyTasks", "warmupTasks"
    return any(
        each.get("partitions") for of in given for kind in kinds for each in of.get(kind) or ()
    )
