"""Recorded accidents: request logs of three real brokers, and what the brokers' own logs say.

The facts come from `server.log`: who joined, left, expired or was replaced, which generation began,
which transaction timed out. Other facts come from the script. Findings about something else are
judged by the script's `must` and `may` (`accidents.py`).
"""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from brokertwin.protocol.errors import error_name
from brokertwin.recordings.history import findings as f
from brokertwin.simulation.request_logs import LogLine
from brokertwin.simulation.truth import (
    BrokerMoved,
    Fact,
    GenerationBegan,
    MemberChanged,
    TransactionMoved,
)
from brokertwin.state.core.events import Kind
from tests.score.accidents import ACCIDENTS
from tests.score.damage import Lines
from tests.score.record import GOLDENS

RESTART_MS = 30_000
"""A broker that is started serves again within this time, on a busy machine."""

_TIMED = re.compile(r"broker-\d+ \[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] \w+ (.*)")
_REQUEST = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")

_OF_GROUP = r"\[Group(?:Id)? (?P<group>\S+)\]"
_STATIC = r"groupInstanceId=(?P<instance>\S+)"
_MODERN_STATIC = _OF_GROUP + r" Static member (?P<member>\S+) with instance id (?P<instance>\S+)"
_CHANGES: tuple[tuple[str, str], ...] = (
    ("joined", r"with id (?P<member>\S+) joins group (?P<group>\S+) in \w+ state\. Adding"),
    ("joined", _STATIC + r" .* joins group (?P<group>\S+) .* new member id (?P<member>\S+) for"),
    ("replaced", r"joins group (?P<group>\S+) in .* previously mapped member (?P<member>\S+)"),
    ("joined", _OF_GROUP + r" Member (?P<member>\S+) joins the (?:consumer|share) group"),
    ("joined", _MODERN_STATIC + r" joins the"),
    (
        "returned",
        _OF_GROUP + r" Static member with instance id (?P<instance>\S+) re-joins .*"
        r" Created a new member (?P<member>\S+) to",
    ),
    ("replaced", _OF_GROUP + r" .* to replace the existing member (?P<member>\S+?)\.? "),
    ("left", _OF_GROUP + r" Member (?P<member>\S+) (?:has left group|left the)"),
    ("away", _MODERN_STATIC + r" temporarily left"),
    ("expired", r"Member (?P<member>\S+) in group (?P<group>\S+) has failed, removing"),
    ("expired", _OF_GROUP + r" Member (?P<member>\S+) fenced from the group because"),
)
_MEMBERS = [(change, re.compile(pattern)) for change, pattern in _CHANGES]
_GENERATIONS = [
    re.compile(r"Stabilized group (?P<group>\S+) generation (?P<number>\d+) with"),
    re.compile(r"Group (?P<group>\S+) with generation (?P<number>\d+) is now empty"),
    re.compile(r"\[GroupId (?P<group>\S+)\] Bumped group epoch to (?P<number>\d+)"),
]
_REJOINED = re.compile(
    r"Preparing to rebalance group (?P<group>\S+) .*\(reason: "
    r"(?:Updating metadata for member|leader) (?P<member>\S+)"
)
_TIMEOUT = re.compile(r"Completed rollback of ongoing transaction for transactionalId (\S+) due to")
_HOLDER = re.compile(
    r"memberId=(?P<former>\S+) for static member with " + _STATIC + r" is fenced by existing"
    r" memberId=(?P<member>\S+)"
)
_HEX = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


class Golden(NamedTuple):
    """A recorded accident.

    Attributes:
        lines: of each broker's request log.
        facts: from the brokers' logs and the script.
    """

    name: str
    lines: Lines
    facts: list[Fact]

    def is_said(self, found: f.Finding) -> bool:
        """Whether the script allows a warning or an error."""
        accident = ACCIDENTS[self.name]
        return any(
            (found.kind == kind or kind == "*") and fnmatchcase(_subject(found), subject)
            for kind, subject in (*accident.must, *accident.may)
        )

    def missing(self, found: list[f.Finding]) -> list[str]:
        return [
            f"{kind} {subject}"
            for kind, subject in ACCIDENTS[self.name].must
            if not any(each.kind == kind and fnmatchcase(_subject(each), subject) for each in found)
        ]


def names() -> list[str]:
    return sorted(folder.name for folder in GOLDENS.iterdir() if folder.is_dir())


def golden(name: str) -> Golden:
    """Read a recorded accident."""
    folder = GOLDENS / name
    lines: Lines = {}
    for path in sorted(folder.glob("broker-*.gz")):
        broker = int(path.name.removeprefix("broker-").partition(".")[0])
        with gzip.open(path) as file:
            lines[broker] = [
                LogLine(_time(*at.groups()), broker, line.decode().rstrip("\n"))
                for line in file
                if (at := _REQUEST.match(line))
            ]
    script = json.loads(gzip.decompress((folder / "script.json.gz").read_bytes()))
    logged = gzip.decompress((folder / "server.log.gz").read_bytes()).decode().splitlines()
    clients = {
        each["member"]: client
        for client, said in script["said"].items()
        for each in said
        if each.get("member")
    }
    facts = [*_logged_facts(logged, clients), *_scripted_facts(script)]
    return Golden(name, lines, sorted(facts, key=lambda each: each.time))


def _subject(found: f.Finding) -> str:
    if isinstance(found, f.Refused):
        return f"{found.line.api} {error_name(found.code)}"
    return found.subject.name


def _logged_facts(logged: list[str], clients: Mapping[str, str]) -> Iterator[Fact]:
    groups: dict[str, str] = {}
    for line in logged:
        timed = _TIMED.match(line)
        if timed is None:
            continue
        time, text = _time(timed[1].encode(), timed[2].encode()), timed[3]
        for change, pattern in _MEMBERS:
            if found := pattern.search(text):
                groups[found["member"].rstrip(".")] = found["group"]
                yield _changed(time, change, found, found["group"], clients)
        if found := _REJOINED.search(text):
            yield _changed(time, "rejoined", found, found["group"], clients)
        if found := _HOLDER.search(text):
            group = groups.get(found["former"], "")
            groups.setdefault(found["former"], group)
            yield _changed(time, "returned", found, group, clients)
        for pattern in _GENERATIONS:
            if found := pattern.search(text):
                yield GenerationBegan(
                    time=time, group=found["group"], number=int(found["number"]), members=()
                )
        if found := _TIMEOUT.search(text):
            yield TransactionMoved(
                time=time,
                id=found[1],
                producer=-1,
                epoch=-1,
                state="CompleteAbort",
                is_timeout=True,
            )


def _changed(
    time: int, change: str, found: re.Match[str], group: str, clients: Mapping[str, str]
) -> MemberChanged:
    member = found["member"].rstrip(".")
    return MemberChanged(
        time=time,
        group=group,
        member=member,
        of=clients.get(member) or _HEX.sub("", member),
        instance=found.groupdict().get("instance") or "",
        change=change,
        generation=-1,
    )


def _scripted_facts(script: dict[str, Any]) -> Iterator[Fact]:
    for each in script["facts"]:
        is_back = each["change"] == Kind.START_BROKER
        time = each["time"] + (RESTART_MS if is_back else 0)
        yield BrokerMoved(time=time, broker=each["broker"], change=each["change"])


def _time(second: bytes, millisecond: bytes) -> int:
    at = datetime.strptime(second.decode(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return int(at.timestamp()) * 1000 + int(millisecond)
