"""The timeline of a consumer group: rebalances and their causes, commits, refusals.

Successful heartbeats are left out: a rebalance shows in those that were refused.
"""

from collections import Counter
from collections.abc import Sequence

from brokertwin.protocol.errors import Error
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
from brokertwin.recordings.history.finding import EntityFinding
from brokertwin.recordings.history.group_offsets import COMMIT_APIS
from brokertwin.recordings.history.groups import GROUPS, ObservedGroup, group_of
from brokertwin.recordings.history.memberships import BEATS, MEMBER_APIS
from brokertwin.recordings.history.recording import ObservedRecording, observed_recording
from brokertwin.recordings.history.shares import SHARE_APIS, SHARE_GROUPS
from brokertwin.recordings.history.words import sentence
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.groups.topology_topics import TopologyStatus
from brokertwin.wording import counted

APIS = frozenset({*MEMBER_APIS, *SHARE_APIS, *COMMIT_APIS, "OFFSET_DELETE"})
"""The APIs that name a group and may change it."""

QUIET = ("HEARTBEAT", "SYNC_GROUP", *BEATS, *SHARE_APIS)
"""Those whose requests are left out if they changed nothing."""

NOTES = (
    *("generation-began", "member-left", "member-joined", "member-advanced", "streams-status"),
    *("offset-moved-back", "offset-deleted", "records-released", "records-rejected"),
    *("records-redelivered", "share-session-opened", "share-session-closed"),
)
"""Findings that are notes of an entry."""

LEFT = "The member has left"


class GroupTimeline:
    """A group in a recording.

    Args:
        exchanges: the recording.
        key: the group's id.
        logged: lines of the coordinators' server.log.

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
        self._own = [each for each in of_groups if each.request.get("groupId") == key]
        lines: dict[tuple[int, str], Logged] = {}
        for line in logged:
            if line.is_of(key):
                lines.setdefault((line.time, line.text), line)
        self._logged = sorted(lines.values(), key=lambda each: each.time)
        if not (self._own or self._logged):
            known = {each.request.get("groupId") for each in of_groups} - {None}
            known |= {min(each.groups, key=len) for each in logged}
            raise absent("group", key, sorted(known))
        self._known = recording.known
        entity = recording.observed(GROUPS).entities.get(EntityKey("group", key))
        self.entity = entity if isinstance(entity, ObservedGroup) else group_of(key)
        self._found = recording.at_places(GROUPS, SHARE_GROUPS)

    def story(self) -> list[TimelineEntry]:
        """One entry for each request that changed the group, or was refused, and log line."""
        found = [(each.line.end, self._entry(each)) for each in self._own]
        found += [(each.time, _line(each)) for each in self._logged]
        found.sort(key=lambda each: each[0])
        return [entry for _, entry in found if entry is not None]

    def ending(self) -> list[str]:
        """The generation, and the committed offsets with the requests that brought them."""
        number = self.entity.membership.number
        generation = max([number, *(each.generation for each in self._logged)])
        lines = [f"group {self.key} is in generation {generation}"] * (generation >= 0)
        reasons = Counter(each.reason_in_general for each in self._logged if each.rebalance)
        if reasons:
            listed = "; ".join(f"{reason} ({n})" for reason, n in reasons.most_common())
            lines.append(f"the coordinator began {counted(reasons.total(), 'rebalance')}: {listed}")
        newest = self.entity.offsets.newest.values()
        return lines + [
            f"{each.place} at {each.offset}, by {each.line.words}"
            for each in sorted(newest, key=lambda each: (each.topic, each.partition))
        ]

    def _entry(self, exchange: RecordedExchange) -> TimelineEntry | None:
        line = exchange.line
        found = [
            each for each in self._found.get(line.place, ()) if each.subject == f"group {self.key}"
        ]
        refused = [
            TimelineError(code, self._because(code, exchange, found))
            for code in dict.fromkeys(bodies.errors(exchange.response))
        ]
        notes = [self._note(each, line.end) for each in found if each.kind in NOTES]
        if not exchange.has_response:
            notes.append(NO_RESPONSE)
        if line.api in QUIET and not refused and not notes:
            return None
        return TimelineEntry.at(line, _said(exchange, self._known), notes, refused)

    def _note(self, found: EntityFinding, end: int) -> str:
        """An ordinary event in words; the coordinator's reason for a rebalance is better."""
        if found.kind == "streams-status":
            return f"status {TopologyStatus(found.facts['code']).name}: {found.facts['detail']}"
        if found.kind == "generation-began":
            number = found.facts["number"]
            reason = self._logged_reason(number - 1, end)
            if reason:
                return f"generation {number} begins: {reason}"
        return found.cause or found.said

    def _because(
        self, code: int, exchange: RecordedExchange, found: Sequence[EntityFinding]
    ) -> str:
        """The cause of an error: from server.log if it has one, otherwise from the exchanges."""
        cause = " ".join(each.cause for each in found if each.code == code and each.cause)
        member = exchange.request.get("memberId") or ""
        if code == Error.REBALANCE_IN_PROGRESS:
            number = exchange.request.get("generationId", -1)
            reason = self._logged_reason(number, exchange.line.end)
            return f"A rebalance is under way: {reason}." if reason else cause
        if code == Error.UNKNOWN_MEMBER_ID and not cause.startswith(LEFT):
            ended = [each for each in self._logged if member and each.ends(member)]
            if ended:
                return f"{sentence(ended[-1].text.rstrip('.'))} ({ended[-1].place})."
        return cause

    def _logged_reason(self, generation: int, end: int) -> str:
        """The coordinator's reason for the rebalance that ends a generation, and its line."""
        found = [
            f"{each.rebalance[1]} ({each.place})"
            for each in self._logged
            if each.rebalance and each.rebalance[0] == generation and each.time <= end
        ]
        return found[-1] if found else ""


def _line(logged: Logged) -> TimelineEntry:
    """A line of the coordinator."""
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


def _said(exchange: RecordedExchange, known: KnownFacts) -> str:
    """A request in words."""
    body = exchange.request
    member = body.get("memberId") or ""
    found = [f"member {member}"] if member else []
    epoch = body.get("generationId", body.get("generationIdOrMemberEpoch", -1))
    if epoch >= 0:
        found.append(f"generation {epoch}")
    if exchange.line.api in COMMIT_APIS:
        found += [
            f"{known.topic(topic)}-{each['partitionIndex']} at {each['committedOffset']}"
            for topic in body.get("topics") or ()
            for each in topic["partitions"]
        ]
    if body.get("reason"):
        found.append(f"reason: {body['reason']}")
    if not found and exchange.line.api == "JOIN_GROUP":
        return "without a member id"
    return ", ".join(found)
