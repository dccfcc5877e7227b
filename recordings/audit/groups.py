"""Findings about consumer groups: rebalances and who began them, members dropped or refused."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from brokertwin.recordings.audit.finding import (
    Evidence,
    Finding,
    Severity,
    client_of,
    counted,
    names_of,
    rule_of,
    times,
)
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.audit.sessions import WINDOW_MS
from brokertwin.recordings.explain.rules import Rule
from brokertwin.recordings.explain.story import sentence, words
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error, error_name

STORM = 5
"""A group with so many rebalances within `WINDOW_MS` has a storm."""

TRIGGERS_SHOWN = 4

BEATS = ("CONSUMER_GROUP_HEARTBEAT", "STREAMS_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT")
OF_MEMBERS = ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", *BEATS)
REFUSED = frozenset(
    {
        *(Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.INCONSISTENT_GROUP_PROTOCOL),
        *(Error.INVALID_SESSION_TIMEOUT, Error.FENCED_INSTANCE_ID, Error.GROUP_MAX_SIZE_REACHED),
        *(Error.FENCED_MEMBER_EPOCH, Error.UNRELEASED_INSTANCE_ID, Error.UNSUPPORTED_ASSIGNOR),
        Error.STALE_MEMBER_EPOCH,
    }
)
"""What a member is told that has to begin again."""

REBALANCE = Rule(
    "Members that join, leave or are not heard of begin a rebalance, for which all of them stop.",
    "ClassicGroup, GroupMetadataManager; KIP-62, KIP-345, KIP-848",
    "Look at who began them: give instances that restart a group.instance.id, poll faster or raise"
    " max.poll.interval.ms where members are dropped, deploy fewer members at a time.",
)
DROPPED = Rule(
    "A member that sends no heartbeat for session.timeout.ms, or does not poll for"
    " max.poll.interval.ms, is not in the next generation.",
    "KIP-62; ClassicGroup, GroupMetadataManager",
    "Look for pauses of its process (GC, slow records) and for lost connections; fewer"
    " max.poll.records or a greater max.poll.interval.ms. A static member has no other way to go.",
)


class Trigger(NamedTuple):
    """Who began a rebalance: `joined`, `left`, `dropped` or `joined again`.

    `reason` is what the client gave for it (KIP-800); "" if it gave none.
    """

    what: str
    client: str
    member: str
    exchange: Exchange
    reason: str = ""

    @property
    def words(self) -> str:
        """`a left: the consumer is being closed`."""
        return f"{self.client} {self.what}" + (f": {self.reason}" if self.reason else "")


class Rebalance(NamedTuple):
    """A generation, or an epoch, that a group came to.

    Attributes:
        group: its id.
        number: the generation, or the epoch of members.
        exchanges: those whose answers say so, in their order.
        triggers: who began it, as far as the recording shows.
    """

    group: str
    number: int
    exchanges: list[Exchange]
    triggers: list[Trigger]


class Membership:
    """What a recording says of the members of one group.

    Attributes:
        generations: the answers that gave each generation, or epoch.
        lists: generation to its members and their `group.instance.id`, where its leader was told.
        clients: member to client id.
        told: members that have got an id, and have to join with it.
        joined: exchange to the member that joined by it for the first time.
        left: who left, and by which exchange.
    """

    def __init__(self) -> None:
        self.generations: dict[int, list[Exchange]] = defaultdict(list)
        self.lists: dict[int, dict[str, str | None]] = {}
        self.clients: dict[str, str] = {}
        self.told: set[str] = set()
        self.joined: dict[str, str] = {}
        self.left: list[Trigger] = []

    def take(self, exchange: Exchange, body: Any) -> None:
        """One request of the group, with its answer."""
        answer = exchange.response or {}
        member = body.get("memberId") or answer.get("memberId") or ""
        if member and exchange.api != "LEAVE_GROUP":
            self.clients[member] = client_of(exchange)
        if exchange.api == "JOIN_GROUP":
            self._join(exchange, body, answer, member)
        elif exchange.api == "LEAVE_GROUP" and not answer.get("errorCode"):
            refused = {
                each.get("memberId") for each in answer.get("members") or () if each["errorCode"]
            }
            for each in body.get("members") or [body]:
                gone = each.get("memberId") or each.get("groupInstanceId") or ""
                if each.get("memberId") not in refused:
                    reason = each.get("reason") or ""
                    self.left.append(Trigger("left", client_of(exchange), gone, exchange, reason))
        elif exchange.api in BEATS and not answer.get("errorCode"):
            epoch, asked = answer.get("memberEpoch", -1), body.get("memberEpoch", -1)
            if asked < 0:
                self.left.append(Trigger("left", client_of(exchange), member, exchange))
            elif epoch > asked:
                self.generations[epoch].append(exchange)
            if asked == 0:
                self.joined[exchange.id] = member

    def _join(self, exchange: Exchange, body: Any, answer: Any, member: str) -> None:
        if answer.get("errorCode") == Error.MEMBER_ID_REQUIRED:
            self.told.add(member)
        elif answer and not answer["errorCode"]:
            self.generations[answer["generationId"]].append(exchange)
            if not body.get("memberId") or member in self.told:
                self.joined[exchange.id] = member
            self.told.discard(member)
            if answer.get("leader") == member:
                self.lists[answer["generationId"]] = {
                    each["memberId"]: each.get("groupInstanceId") for each in answer["members"]
                }

    def triggers(self, number: int) -> list[Trigger]:
        """Who began a generation.

        A member is new that had no id yet, or had just been told one. Others show by the leaders'
        lists of two generations of which one comes right after the other.
        """
        exchanges = self.generations[number]
        begin = min(each.end for each in exchanges)
        former = [n for n in self.generations if n < number]
        since = self.generations[max(former)][0].end if former else -1
        left = [
            each for each in self.left if since <= each.exchange.end and each.exchange.time <= begin
        ]
        found = [
            self._trigger("joined", self.joined[each.id], each)
            for each in exchanges
            if each.id in self.joined
        ]
        found += left
        before, now = self.lists.get(number - 1), self.lists.get(number)
        if before is None or now is None:
            return found
        known = {*(each.member for each in found), *filter(None, now.values())}
        gone = [m for m, i in before.items() if m not in now and not {m, i} & known]
        found += [self._trigger("dropped", m, exchanges[0]) for m in gone if m in self.clients]
        if not found and not gone and before.keys() == now.keys():
            first = min(exchanges, key=lambda each: each.time)
            found.append(self._trigger("joined again", self._member(first), first))
        return found

    def _member(self, exchange: Exchange) -> str:
        return str((exchange.response or {}).get("memberId") or exchange.body().get("memberId"))

    def _trigger(self, what: str, member: str, exchange: Exchange) -> Trigger:
        reason = exchange.body().get("reason") or "" if what == "joined again" else ""
        return Trigger(what, self.clients.get(member, "?"), member, exchange, reason)


def rebalances(history: History) -> list[Rebalance]:
    """Every rebalance that a recording shows, by group."""
    groups: dict[str, Membership] = defaultdict(Membership)
    for exchange, body in history.of(*OF_MEMBERS, "OFFSET_COMMIT"):
        groups[str(body.get("groupId"))].take(exchange, body)
    return [
        Rebalance(group, number, members.generations[number], members.triggers(number))
        for group, members in groups.items()
        for number in sorted(members.generations)
    ]


def storms(history: History) -> Iterator[Finding]:
    """How often each group rebalanced, and who began it: a warning where it is a storm."""
    found: dict[str, list[Rebalance]] = defaultdict(list)
    for each in rebalances(history):
        found[each.group].append(each)
    for group, numbered in found.items():
        timed = sorted((e.end, r.number) for r in numbered for e in r.exchanges)
        most = _most_numbers(timed)
        triggers = [trigger for each in numbered for trigger in each.triggers]
        counts = Counter((each.client, each.what) for each in triggers)
        ranked = [
            f"{client} {what} {times(count)}{_reasons(triggers, client, what)}"
            for (client, what), count in counts.most_common(TRIGGERS_SHOWN)
        ]
        evidence = [
            Evidence.of(
                exchange,
                f"generation {each.number}{_because(each.triggers)}",
                [trigger.client for trigger in each.triggers],
            )
            for each in numbered
            for exchange in each.exchanges
        ]
        yield Finding(
            "rebalances",
            Severity.WARNING if most >= STORM else Severity.INFO,
            f"group {group}",
            f"{counted(len(numbered), 'generation')}, up to {most} within a minute;"
            f" because of them: {', '.join(ranked) or 'no request recorded'}.",
            REBALANCE,
            evidence,
            often=len(numbered),
        )


def _reasons(triggers: Sequence[Trigger], client: str, what: str) -> str:
    """The reasons that a client gave, in parentheses."""
    given = [e.reason for e in triggers if (e.client, e.what) == (client, what) and e.reason]
    return f" ({'; '.join(dict.fromkeys(given))})" if given else ""


def _because(triggers: Sequence[Trigger]) -> str:
    said = dict.fromkeys(each.words for each in triggers)
    return f": {', '.join(said)}" if said else ""


def _most_numbers(timed: Sequence[tuple[float, int]]) -> int:
    """The most different numbers that come within `WINDOW_MS`."""
    most, first, within = 0, 0, Counter[int]()
    for time, number in timed:
        within[number] += 1
        while timed[first][0] < time - WINDOW_MS:
            within[timed[first][1]] -= 1
            first += 1
        most = max(most, sum(count > 0 for count in within.values()))
    return most


def dropped(history: History) -> Iterator[Finding]:
    """Members that were in a generation, did not leave, and are not in the next one."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    for each in rebalances(history):
        for trigger in each.triggers:
            if trigger.what == "dropped":
                said = f"not in generation {each.number}: {trigger.member}"
                made = Evidence.of(trigger.exchange, said)
                found[each.group].append(made._replace(client=trigger.client))
    for group, evidence in found.items():
        yield Finding(
            "member-dropped",
            Severity.WARNING,
            f"group {group}",
            sentence(
                f"{names_of(e.client for e in evidence)}: {times(len(evidence))} a member had not"
                " left and was not in the next generation"
            ),
            DROPPED,
            evidence,
        )


def refused(history: History) -> Iterator[Finding]:
    """Members that were told that they are none any more, by group and error."""
    found: dict[tuple[str, int], list[Evidence]] = defaultdict(list)
    holders: dict[tuple[str, str], list[Exchange]] = defaultdict(list)
    for exchange, body in history.of(*OF_MEMBERS):
        answer, group = exchange.response or {}, str(body.get("groupId"))
        instance = body.get("groupInstanceId") or body.get("instanceId") or ""
        codes = {answer.get("errorCode", Error.NONE)}
        codes |= {each["errorCode"] for each in answer.get("members") or () if "errorCode" in each}
        if instance and exchange.api == "JOIN_GROUP" and not answer.get("errorCode"):
            holders[group, instance].append(exchange)
        for code in sorted(codes & REFUSED):
            taken = [
                each
                for each in holders[group, instance]
                if code == Error.FENCED_INSTANCE_ID
                and each.response["memberId"] != body.get("memberId")
            ]
            said = f"{exchange.api}: {error_name(code)}"
            said += f"; {instance} is held by {words(taken[-1])}" if taken else ""
            found[group, code].append(Evidence.of(exchange, said, map(client_of, taken)))
    for (group, code), evidence in found.items():
        is_fenced = code == Error.FENCED_INSTANCE_ID
        by = [name for each in evidence for name in each.by]
        who = f"; its group.instance.id went to {names_of(by)}" if by else ""
        yield Finding(
            "instance-fenced" if is_fenced else "member-refused",
            Severity.ERROR if is_fenced else Severity.WARNING,
            f"group {group}",
            f"{error_name(code)} was answered {times(len(evidence))} to"
            f" {names_of(e.client for e in evidence)}{who}.",
            rule_of(code),
            evidence,
            code,
        )


FINDERS = (storms, dropped, refused)
