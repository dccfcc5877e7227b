"""The story of a consumer group: rebalances and who began them, commits, and what was refused.

It follows what the broker answered, in the order of the answers. Heartbeats that went well are
left out: a rebalance shows in those that did not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from brokertwin.recordings.explain import bodies, deliveries
from brokertwin.recordings.explain.shared import Shared
from brokertwin.recordings.explain.story import (
    NO_VERSION,
    Entry,
    Refused,
    absent,
    in_order,
    sentence,
    words,
)
from brokertwin.recordings.formats.coordinator_lines import Logged
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error
from brokertwin.state.groups.topology_topics import Status
from brokertwin.wording import counted

APIS = frozenset(
    {
        *("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP"),
        *("CONSUMER_GROUP_HEARTBEAT", "STREAMS_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT"),
        *deliveries.APIS,
        *("OFFSET_COMMIT", "TXN_OFFSET_COMMIT", "OFFSET_DELETE"),
    }
)
"""The APIs that name a group and may change it."""

BEATS = ("CONSUMER_GROUP_HEARTBEAT", "STREAMS_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT")
"""Those by which members join, come to another epoch, and leave."""

QUIET = ("HEARTBEAT", "SYNC_GROUP", *BEATS, *deliveries.APIS)
"""Those that are left out where they say nothing."""

COMMITS = ("OFFSET_COMMIT", "TXN_OFFSET_COMMIT")


class Committed(NamedTuple):
    """An offset that a broker has taken, and the request that brought it."""

    offset: int
    exchange: Exchange


class Groups:
    """What a recording says of a group.

    Args:
        exchanges: the recording.
        key: the group's id.
        logged: lines of the coordinators' server.log.

    Raises:
        UserError: the recording has no such group.
    """

    def __init__(
        self, exchanges: Sequence[Exchange], key: str, logged: Sequence[Logged] = ()
    ) -> None:
        self.key = key
        self.generation = -1
        self.offsets: dict[tuple[str, int], Committed] = {}
        self._begun: Exchange | None = None
        self._members: dict[str, Exchange] = {}
        self._gone: dict[str, Exchange] = {}
        self._reasons: dict[str, str] = {}
        self._left: Exchange | None = None
        self._told: set[tuple[str, int, str]] = set()
        asked = in_order(exchanges, APIS)
        if not asked:  # a text log may have no responses
            asked = [(each, each.body()) for each in exchanges if each.api in APIS and each.is_text]
        self._asked = [(each, body) for each, body in asked if body.get("groupId") == key]
        lines: dict[tuple[int, str], Logged] = {}
        for line in logged:
            if line.is_of(key):
                lines.setdefault((line.time, line.text), line)
        self._logged = sorted(lines.values(), key=lambda each: each.time)
        if not (self._asked or self._logged):
            known = {body.get("groupId") for _, body in asked} - {None}
            known |= {min(each.groups, key=len) for each in logged}
            raise absent("group", key, sorted(known))
        self._shared = Shared(exchanges, self._asked)
        self._names = bodies.topic_names(exchanges)
        self._joins = [
            each
            for each, _ in self._asked
            if each.api == "JOIN_GROUP" and each.response and not each.response["errorCode"]
        ]
        self._instances = {each.id: body.get("groupInstanceId") for each, body in self._asked}

    def story(self) -> list[Entry]:
        """One entry for each request that changed the group, or was refused, and log line."""
        found = [(each.end, self._entry(each, body)) for each, body in self._asked]
        found += [(each.time, _line(each)) for each in self._logged]
        found.sort(key=lambda each: each[0])
        return [entry for _, entry in found if entry is not None]

    def ending(self) -> list[str]:
        """The generation, and the committed offsets with the requests that brought them."""
        generation = max([self.generation, *(each.generation for each in self._logged)])
        lines = [f"group {self.key} is in generation {generation}"] * (generation >= 0)
        reasons = Counter(each.reason_in_general for each in self._logged if each.rebalance)
        if reasons:
            listed = "; ".join(f"{reason} ({n})" for reason, n in reasons.most_common())
            lines.append(f"the coordinator began {counted(reasons.total(), 'rebalance')}: {listed}")
        return lines + [
            f"{topic}-{partition} at {committed.offset}, by {words(committed.exchange)}"
            for (topic, partition), committed in sorted(self.offsets.items())
        ]

    def _entry(self, exchange: Exchange, body: Any) -> Entry | None:
        response = exchange.response
        codes = dict.fromkeys(bodies.errors(response))
        refused = [Refused(code, self._because(code, body, exchange)) for code in codes]
        notes = list(self._changed(exchange, body, response or {}, bool(codes)))
        if not exchange.is_recorded:
            notes.append("the log has no response")
        if exchange.api in QUIET and not refused and not notes:
            return None
        return Entry.of(exchange, _said(exchange, body, self._names), notes, refused)

    def _changed(
        self, exchange: Exchange, body: Any, response: Any, is_refused: bool
    ) -> Iterable[str]:
        """Takes what an answer changes; gives back what is worth saying of it."""
        if exchange.api in COMMITS:
            yield from self._commit(exchange, body, response)
        elif not exchange.is_recorded:
            return
        elif exchange.api == "JOIN_GROUP" and not is_refused:
            yield from self._join(exchange, body, response)
        elif exchange.api == "LEAVE_GROUP" and not is_refused:
            for member, reason in _leaving(body):
                self._leave(member, exchange)
                self._reasons[member] = f" ({reason})" if reason else ""
                yield f"member {member} has left" + (f": {reason}" if reason else "")
        elif exchange.api in deliveries.APIS:
            yield from self._shared.notes(exchange, body)
        elif exchange.api in BEATS and not is_refused:
            yield from self._beat(exchange, body, response)
        elif exchange.api == "OFFSET_DELETE" and not is_refused:
            for topic in body.get("topics") or ():
                for partition in topic["partitions"]:
                    name = named(topic, self._names)
                    place = f"{name}-{partition['partitionIndex']}"
                    self.offsets.pop((name, partition["partitionIndex"]), None)
                    yield f"the offset of {place} is deleted"

    def _join(self, exchange: Exchange, body: Any, response: Any) -> Iterable[str]:
        member, generation = response.get("memberId", ""), response.get("generationId", -1)
        if generation > self.generation:
            new = [
                each
                for each in self._joins
                if each.response["generationId"] == generation
                and each.response["memberId"] not in self._members
            ]
            causes = [*new, *([self._left] if self._left is not None else [])]
            self.generation, self._begun, self._left = generation, exchange, None
            reason = self._logged_reason(generation - 1, exchange)
            if reason:
                yield f"generation {generation} begins: {reason}"
            elif causes:
                cause = min(causes, key=lambda each: each.time)
                by = "this request" if cause is exchange else words(cause)
                yield f"generation {generation} begins, by {by}"
            else:
                yield (
                    f"generation {generation} begins: a member that was there joined again, or the"
                    " session of one ended"
                )
        self._members[member] = exchange
        self._gone.pop(member, None)

    def _leave(self, member: str, exchange: Exchange) -> None:
        was_there = self._members.pop(member, None) is not None
        if not self._members:
            self._left = None  # nobody is left to join again
        elif was_there and self._left is None:
            self._left = exchange
        self._gone[member] = exchange

    def _beat(self, exchange: Exchange, body: Any, response: Any) -> Iterable[str]:
        member = body.get("memberId") or response.get("memberId") or ""
        epoch, asked = response.get("memberEpoch", -1), body.get("memberEpoch", -1)
        if asked < 0:
            self._leave(member, exchange)
            yield f"member {member} has left"
        elif asked == 0:
            self._members[member] = exchange
            yield f"member {member} joins in epoch {epoch}"
        elif epoch > asked:
            yield f"member {member} comes from epoch {asked} to {epoch}"
        self.generation = max(self.generation, epoch)
        told = [(each["statusCode"], each["statusDetail"]) for each in response.get("status") or ()]
        for code, detail in told:
            if (member, code, detail) not in self._told:
                yield f"status {Status(code).name}: {detail}"
        self._told = {each for each in self._told if each[0] != member}
        self._told |= {(member, *each) for each in told}

    def _commit(self, exchange: Exchange, body: Any, response: Any) -> Iterable[str]:
        """Takes committed offsets; says where one goes back."""
        taken = {
            (bodies.topic_of(topic), partition["partitionIndex"])
            for topic in response.get("topics") or ()
            for partition in topic["partitions"]
            if not partition["errorCode"]
        }
        for topic in body.get("topics") or ():
            for partition in topic["partitions"]:
                asked = bodies.topic_of(topic), partition["partitionIndex"]
                if exchange.is_recorded and asked not in taken:
                    continue
                place = named(topic, self._names), partition["partitionIndex"]
                offset, former = partition["committedOffset"], self.offsets.get(place)
                self.offsets[place] = Committed(offset, exchange)
                if former is not None and offset < former.offset:
                    yield (
                        f"{place[0]}-{place[1]} goes back from {former.offset}"
                        f" ({words(former.exchange)}) to {offset}"
                    )

    def _because(self, code: int, body: Any, exchange: Exchange) -> str:
        if exchange.api in deliveries.APIS:
            return self._shared.because(code, exchange, body)
        member = body.get("memberId") or ""
        if code == Error.ILLEGAL_GENERATION and self._begun is not None:
            asked = body.get("generationId", body.get("generationIdOrMemberEpoch", -1))
            return (
                f"The request is of generation {asked}; {self.generation} is there since"
                f" {words(self._begun)}."
            )
        if code == Error.REBALANCE_IN_PROGRESS:
            reason = self._logged_reason(body.get("generationId", -1), exchange)
            if reason:
                return f"A rebalance is under way: {reason}."
            cause = self._rebalance_at(exchange)
            return f"A rebalance is under way: {words(cause)}." if cause is not None else ""
        if code == Error.FENCED_INSTANCE_ID:
            instance = body.get("groupInstanceId")
            same = [each for each in self._joins if self._instances[each.id] == instance]
            later = [each for each in same if each.end <= exchange.end]
            return f"{instance} is held by {words(later[-1])}." if later else ""
        if code == Error.UNKNOWN_MEMBER_ID:
            if member in self._gone:
                reason = self._reasons.get(member, "")
                return f"The member has left: {words(self._gone[member])}{reason}."
            ended = [each for each in self._logged if member and each.ends(member)]
            if ended:
                return f"{sentence(ended[-1].text.rstrip('.'))} ({ended[-1].place})."
            if member in self._members:
                return (
                    f"The member joined by {words(self._members[member])}, and its session has"
                    " ended since: the broker heard nothing of it for session.timeout.ms, or it did"
                    " not join again within max.poll.interval.ms."
                )
            if not member and self._members:
                return (
                    "Without a member id offsets are taken only while the group has no members; it"
                    f" has one by {words(next(iter(self._members.values())))}."
                )
            return f"The recording has no answer that let a member {member or 'without an id'} in."
        return ""

    def _logged_reason(self, generation: int, exchange: Exchange) -> str:
        """The coordinator's reason for the rebalance that ends a generation, and its line."""
        found = [
            f"{each.rebalance[1]} ({each.place})"
            for each in self._logged
            if each.rebalance and each.rebalance[0] == generation and each.time <= exchange.end
        ]
        return found[-1] if found else ""

    def _rebalance_at(self, exchange: Exchange) -> Exchange | None:
        """What began the rebalance of which an answer speaks: a leave, or a join that waits."""
        waiting = [
            each for each in self._joins if each.time <= exchange.end and each.end >= exchange.time
        ]
        causes = [*waiting, *([self._left] if self._left is not None else [])]
        return min(causes, key=lambda each: each.time, default=None)


def _line(logged: Logged) -> Entry:
    """A line of the coordinator."""
    broker = f"broker {logged.broker}"
    return Entry(
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


def _leaving(body: Any) -> list[tuple[str, str]]:
    """The members that leave, each with the reason that its client gives (KIP-800)."""
    members = [
        (each.get("memberId") or each.get("groupInstanceId") or "", each.get("reason") or "")
        for each in body.get("members") or ()
    ]
    return members or [(body.get("memberId") or "", "")]


def named(topic: Any, names: Mapping[str, str]) -> str:
    """The topic of a part of a body, by its name if a response has it."""
    found = bodies.topic_of(topic)
    return names.get(found, found)


def _said(exchange: Exchange, body: Any, names: Mapping[str, str]) -> str:
    """A request in words."""
    member = body.get("memberId") or ""
    found = [f"member {member}"] if member else []
    epoch = body.get("generationId", body.get("generationIdOrMemberEpoch", -1))
    if epoch >= 0:
        found.append(f"generation {epoch}")
    if exchange.api in COMMITS:
        found += [
            f"{named(topic, names)}-{each['partitionIndex']} at {each['committedOffset']}"
            for topic in body.get("topics") or ()
            for each in topic["partitions"]
        ]
    if body.get("reason"):
        found.append(f"reason: {body['reason']}")
    if not found and exchange.api == "JOIN_GROUP":
        return "without a member id"
    return ", ".join(found)
