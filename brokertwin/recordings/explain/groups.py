"""The timeline of a consumer group: rebalances and their causes, commits, refusals.

Successful heartbeats are left out: a rebalance shows in those that were refused.
"""

from collections import Counter
from collections.abc import Sequence

from brokertwin.protocol.errors import Error
from brokertwin.recordings import sentences
from brokertwin.recordings.explain.story import (
    NO_RESPONSE,
    NO_VERSION,
    TimelineEntry,
    TimelineError,
    absent,
)
from brokertwin.recordings.formats.coordinator_lines import Logged
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.entity import EntityKey
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.findings import (
    Finding,
    GenerationBegan,
    GroupId,
    MemberAdvanced,
    MemberAway,
    MemberCame,
    MemberGone,
    MemberHasLeft,
    OffsetAborted,
    OffsetMovedBack,
    OffsetPending,
    OffsetVanished,
    Rebalance,
    RecordsArchived,
    RecordsDeliveredAgain,
    RecordsRejected,
    RecordsReleased,
    ShareSessionClosed,
    ShareSessionOpened,
    StreamsStatus,
)
from brokertwin.recordings.history.group_offsets import (
    COMMIT_APIS,
    ENDING_APIS,
    OFFSET_APIS,
    CommittedOffset,
    groups_of,
)
from brokertwin.recordings.history.groups import GROUPS, ObservedGroup, group_of
from brokertwin.recordings.history.memberships import BEATS, MEMBER_APIS
from brokertwin.recordings.history.recording import ObservedRecording, observed_recording
from brokertwin.recordings.history.shares import SHARE_APIS, SHARE_GROUPS
from brokertwin.recordings.history.words import clock, sentence
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.groups.topology_topics import TopologyStatus
from brokertwin.wording import counted

APIS = frozenset({*MEMBER_APIS, *SHARE_APIS, *OFFSET_APIS})
"""The APIs that may change a group."""

QUIET = frozenset({"HEARTBEAT", "SYNC_GROUP", *BEATS, *SHARE_APIS, *ENDING_APIS, "OFFSET_FETCH"})
"""Those whose requests are left out if they changed nothing."""

NOTES = (
    *(GenerationBegan, MemberGone, MemberAway, MemberCame, MemberAdvanced, StreamsStatus),
    *(OffsetMovedBack, OffsetVanished, OffsetPending, OffsetAborted),
    *(RecordsReleased, RecordsRejected, RecordsDeliveredAgain, RecordsArchived),
    *(ShareSessionOpened, ShareSessionClosed),
)
"""Findings that are notes of an entry."""


class GroupTimeline:
    """A group in a recording.

    `logged`: lines of the coordinators' server.log.

    Raises:
        UserError: the recording has no such group.
    """

    def __init__(
        self,
        exchanges: Sequence[Exchange] | ObservedRecording,
        key: str,
        logged: Sequence[Logged] = (),
    ) -> None:
        self.key = key
        recording = observed_recording(exchanges)
        of_groups = [each for each in recording.exchanges if each.line.api in APIS]
        if not of_groups:  # a text log may have no responses
            of_groups = [each for each in recording.without_response if each.line.api in APIS]
            recording = recording.of(of_groups)
        self._known, self._exchanges = recording.known, recording.exchanges
        self._own = [each for each in of_groups if key in self._groups_of(each)]
        lines: dict[tuple[int, str], Logged] = {}
        for line in logged:
            if line.is_of(key):
                lines.setdefault((line.time, line.text), line)
        self._logged = sorted(lines.values(), key=lambda each: each.time)
        if not (self._own or self._logged):
            names = {name for each in of_groups for name in self._groups_of(each)}
            names |= {min(each.groups, key=len) for each in logged}
            raise absent("group", key, sorted(names))
        entity = recording.observed(GROUPS).entities.get(EntityKey("group", key))
        self.entity = entity if isinstance(entity, ObservedGroup) else group_of(key)
        self._found = recording.at_places(GROUPS, SHARE_GROUPS)
        own = (each for each in recording.found(GROUPS, Rebalance) if each.group == key)
        self._rebalances = {each.number: each for each in own}

    @property
    def transactional_ids(self) -> set[str]:
        found = {each.request.get("transactionalId") for each in self._own}
        return {str(each) for each in found if each}

    def _groups_of(self, exchange: RecordedExchange) -> list[str]:
        if exchange.line.api in OFFSET_APIS:
            return groups_of(exchange, self._known)
        group = exchange.request.get("groupId")
        return [group] if group is not None else []

    def story(self) -> list[TimelineEntry]:
        """One entry for each request that changed the group, or was refused, and log line."""
        found = [(each.line.time, self._entry(each)) for each in self._own]
        found += [(each.time, _line(each)) for each in self._logged]
        found.sort(key=lambda each: each[0])
        return [entry for _, entry in found if entry is not None]

    def ending(self) -> list[str]:
        """The generation, and the committed offsets with the requests that brought them."""
        lines = self._state()
        reasons = Counter(each.reason_in_general for each in self._logged if each.rebalance)
        if reasons:
            listed = "; ".join(f"{reason} ({n})" for reason, n in reasons.most_common())
            lines.append(f"the coordinator began {counted(reasons.total(), 'rebalance')}: {listed}")
        committed = sorted(self.entity.offsets.offsets.values(), key=_by_place)
        pending = sorted(self.entity.offsets.pending, key=_by_place)
        lines += [f"{each.place} at {each.offset}, by {each.line.words}" for each in committed]
        return lines + [
            f"{each.place} at {each.offset} is pending, by {each.line.words}: the transaction of"
            f" producer {self._known.producers.get(each.producer[0], each.producer[0])} is open"
            for each in pending
        ]

    def _state(self) -> list[str]:
        """The generation, and whether the group is empty, as the coordinator has them."""
        state = self.entity.membership.state_at(self._known.last, self._known)
        newest = max(self._logged, key=lambda each: (each.generation, each.time), default=None)
        logged = newest.generation if newest is not None else -1
        deleted = self.entity.membership.deleted
        if deleted is not None and not self.entity.offsets.offsets:
            return [f"group {self.key} is deleted, by {deleted.words}"]
        if max(state.number, logged) < 0:
            return []
        if newest is not None and logged > state.number:
            return [f"group {self.key} was in generation {logged} at {clock(newest.time)}"]
        membership = self.entity.membership
        if state.is_empty is False:
            said = f"group {self.key} was in generation {state.number} at {clock(state.shown)}"
            return [said, *self._silent()]
        if state.is_empty and (membership.is_empty or self._have_expired()):
            return [f"group {self.key} is empty, in generation {state.number}"]
        was = f"group {self.key} was in generation {max(membership.number, logged)}"
        return [f"{was}; whether it has members is not recorded"]

    def _silent(self) -> list[str]:
        """Members of KIP-848 that may have expired."""
        until = int(min(self._known.last, self._known.recorded_until()))
        return [
            f"member {name} of client {each.last.name} is silent since {clock(each.last.end)};"
            " whether it has expired is not recorded"
            for name, each in self.entity.membership.silent_at(until).items()
            if self._known.is_covered_by_all(each.last.end, until)
        ]

    def _have_expired(self) -> bool:
        """Whether a connection shows that the broker ran as long as each silent member's session.

        A coordinator that is restarted begins all sessions anew.
        """
        spans: dict[tuple[int, str], tuple[int, int]] = {}
        for line in (each.line for each in self._exchanges):
            first, last = spans.get((line.broker, line.connection), (line.time, line.end))
            spans[line.broker, line.connection] = min(first, line.time), max(last, line.end)
        return all(
            any(
                broker == each.last.broker
                and last - max(first, each.last.end) >= each.session_timeout_ms
                for (broker, _), (first, last) in spans.items()
            )
            for each in self.entity.membership.members.values()
        )

    def _entry(self, exchange: RecordedExchange) -> TimelineEntry | None:
        line = exchange.line
        findings = [
            each for each in self._found.get(line.place, ()) if each.subject == GroupId(self.key)
        ]
        codes = [] if line.api in ENDING_APIS else bodies.errors(exchange.response)
        refused = [
            TimelineError(code, self._because(code, exchange, findings))
            for code in dict.fromkeys(codes)
        ]
        notes = [self._note(each, line.end) for each in findings if isinstance(each, NOTES)]
        if not exchange.has_response:
            notes.append(NO_RESPONSE)
        if line.api in QUIET and not refused and not notes:
            return None
        return TimelineEntry.at(line, _said(exchange, self._known), notes, refused)

    def _note(self, finding: Finding, end: int) -> str:
        """An ordinary event in words; the coordinator's reason for a rebalance is better."""
        if isinstance(finding, StreamsStatus):
            return f"status {TopologyStatus(finding.code_of_status).name}: {finding.detail}"
        if isinstance(finding, GenerationBegan):
            reason = self._logged_reason(finding.number - 1, end)
            if reason:
                return f"generation {finding.number} begins: {reason}"
            whole = self._rebalances.get(finding.number)
            if finding.by_request is None and whole is not None and whole.causes:
                return sentences.said(whole).replace(":", " begins:", 1)
        return sentences.cause(finding) or sentences.said(finding)

    def _because(self, code: int, exchange: RecordedExchange, findings: Sequence[Finding]) -> str:
        """The cause of an error: from server.log if it has one, otherwise from the exchanges."""
        own = [each for each in findings if each.error == code]
        cause = " ".join(filter(None, map(sentences.cause, own)))
        member = exchange.request.get("memberId") or ""
        if code == Error.REBALANCE_IN_PROGRESS:
            number = exchange.request.get("generationId", -1)
            reason = self._logged_reason(number, exchange.line.end)
            return f"A rebalance is under way: {reason}." if reason else cause
        has_left = any(isinstance(why, MemberHasLeft) for each in own for why in each.causes)
        if code == Error.UNKNOWN_MEMBER_ID and not has_left:
            ended = [each for each in self._logged if member and each.ends(member)]
            if ended:
                return f"{sentence(ended[-1].text.rstrip('.'))} ({ended[-1].place})."
        return cause

    def _logged_reason(self, generation: int, end: int) -> str:
        """The coordinator's reason for the rebalance that ends a generation, and its line."""
        reasons = [
            f"{each.rebalance[1]} ({each.place})"
            for each in self._logged
            if each.rebalance and each.rebalance[0] == generation and each.time <= end
        ]
        return reasons[-1] if reasons else ""


def _by_place(offset: CommittedOffset) -> tuple[str, int]:
    return offset.topic, offset.partition


def _line(logged: Logged) -> TimelineEntry:
    broker = f"broker {logged.broker}"
    return TimelineEntry(
        id=logged.place,
        time=logged.time,
        client="",
        connection=broker,
        api="group coordinator",
        version=NO_VERSION,
        said=logged.meaning,
        notes=[logged.text],
        refused=[],
    )


def _said(exchange: RecordedExchange, facts: KnownFacts) -> str:
    body = exchange.request
    member = body.get("memberId") or ""
    parts = [f"member {member}"] if member else []
    epoch = body.get("generationId", body.get("generationIdOrMemberEpoch", -1))
    if epoch >= 0:
        parts.append(f"generation {epoch}")
    if exchange.line.api in COMMIT_APIS:
        parts += [
            f"{facts.topic(topic)}-{each['partitionIndex']} at {each['committedOffset']}"
            for topic in body.get("topics") or ()
            for each in topic["partitions"]
        ]
    if body.get("reason"):
        parts.append(f"reason: {body['reason']}")
    if not parts and exchange.line.api == "JOIN_GROUP":
        return "without a member id"
    return ", ".join(parts)
