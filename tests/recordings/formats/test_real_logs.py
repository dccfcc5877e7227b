"""Request logs of Kafka (2.8, 3.9, 4.3) yield the same findings in any layout.

The same clients ran against each release: `pay` is fenced, two clients reset offsets of `billing`,
and a member leaves by `max.poll.interval.ms`.
"""

import gzip
import json
import lzma
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.reading import read
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.formats.stamps import stamp_of
from brokertwin.recordings.replay.recording import read as read_exchanges
from tests.support.examples import examples
from tests.support.log_layouts import LAYOUTS, Logged, pieces
from tests.support.sources import ROOT

LOGS = ROOT / "tests" / "textlogs"
RELEASES = ("2.8.2", "3.9.1", "4.3.1")
PLACE = re.compile(r"[\w.-]*requests?\.log[\w.-]*:[\d.]+")
Kept = tuple[object, ...]


def log_of(release: str) -> Path:
    return LOGS / f"kafka-{release}-request.log.xz"


def found_in(file: Path) -> list[Kept]:
    found = findings(read([file], FileReading(broker=1)).history)
    return sorted(
        (each.kind, each.subject, each.severity, each.total, PLACE.sub("LINE", each.what))
        for each in found
    )


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_is_audited(release: str) -> None:
    every = found_in(log_of(release))
    found = {(kind, subject): str(what) for kind, subject, _, _, what in every}
    fenced = found["producer-fenced", "producer pay"]
    assert fenced.endswith("in 1 epoch; newer epochs went to client tx-2.")
    back = [what.partition(";")[0] for kind, *_, what in every if kind == "offset-back"]
    clients = ("admin", "reset-tool")
    assert back == [f"Client {name} set 1 partition of the group back" for name in clients]
    assert "worker-2 left once" in found["rebalances", "group billing"]


@pytest.mark.parametrize(
    ("release", "offsets"), [("2.8.2", (27, 33)), ("3.9.1", (29, 31)), ("4.3.1", (30, 30))]
)
def test_committed_offsets_are_those_that_kafka_s_tools_printed(
    release: str, offsets: tuple[int, int]
) -> None:
    group = GroupTimeline(read_exchanges([log_of(release)]).exchanges, "billing")
    group.story()
    last = [line.partition(",")[0] for line in group.ending() if line.startswith("orders-")]
    assert last == [f"orders-{number} at {offset}" for number, offset in enumerate(offsets)]


def logged(release: str) -> list[Logged]:
    made = []
    for text in lzma.decompress(log_of(release).read_bytes()).decode().splitlines():
        stamp = stamp_of(text[1:24])
        body = re.search(r"request:(\{.*\}) \(", text)
        assert stamp is not None
        assert body is not None
        made.append(Logged(stamp.local_ms, body[1]))
    return made


Order = Callable[[list[Logged], Random], Sequence[Logged]]
Runtime = Callable[[Logged, str, int], list[str]]


def in_windows(log: list[Logged], random: Random) -> Sequence[Logged]:
    """Out of order by up to twenty lines, as several writers flush."""
    places = {line: at + random.randrange(20) for at, line in enumerate(log)}
    return sorted(log, key=lambda line: places[line])


def in_two_copies(log: list[Logged], random: Random) -> Sequence[Logged]:
    first, last = sorted(random.sample(range(len(log)), 2))
    return [*log[:last], *log[first:]]


ORDERS: dict[str, Order] = {
    "as logged": lambda log, _: log,
    "newest first": lambda log, _: log[::-1],
    "out of order": in_windows,
    "shuffled": lambda log, random: random.sample(log, len(log)),
    "overlapping": in_two_copies,
    "some twice": lambda log, random: [
        each for each in log for _ in range(random.choice((1, 1, 2)))
    ],
}


def docker(line: Logged, text: str, size: int) -> list[str]:
    """Docker's json-file, which cuts long lines."""
    return [
        json.dumps({"log": part, "stream": "stdout", "time": line.iso})
        for part in pieces(text + "\n", size)
    ]


def cri(line: Logged, text: str, size: int) -> list[str]:
    """The format of containerd and CRI-O, which cut long lines."""
    *parts, last = pieces(text, size) or [""]
    stamp = line.at(form="%Y-%m-%dT%H:%M:%S") + "123456Z stdout"
    return [*(f"{stamp} P {part}" for part in parts), f"{stamp} F {last}"]


RUNTIMES: dict[str, Runtime] = {
    "none": lambda line, text, size: [text],
    "docker": docker,
    "CRI": cri,
    "compose": lambda line, text, size: [f"kafka-1  | {text}"],
    "kubectl": lambda line, text, size: [f"[pod/kafka-1/kafka] {text}"],
}
OWN_LINES = {"Splunk CSV", "CloudWatch CSV", "Kibana CSV"}
"""Tabular layouts, which no container prints."""


def written(random: Random, log: list[Logged], reached: Counter[str]) -> bytes:
    """Return a compressed log in random order; each line has a random layout and runtime."""
    order = random.choice(list(ORDERS))
    reached[order] += 1
    rows = docker(log[0], "[2026-11-27 06:00:00,000] INFO started (kafka.server.KafkaServer)", 900)
    for line in ORDERS[order](log, random):
        layout = random.choice(sorted(LAYOUTS))
        runtime = random.choice(list(RUNTIMES)) if layout not in OWN_LINES else "none"
        reached.update((layout, runtime))
        size = random.choice((300, 900, 16_384))
        for text in LAYOUTS[layout]([line]).decode().splitlines():
            rows += RUNTIMES[runtime](line, text, size)
    content = "".join(f"{row}\n" for row in rows).encode()
    return gzip.compress(content, mtime=0) if random.random() < 0.3 else content


def test_findings_are_the_same_in_any_mixture_of_layouts_and_orders(tmp_path: Path) -> None:
    reached: Counter[str] = Counter()
    for seed in range(examples(9)):
        random = Random(seed)
        release = RELEASES[seed % len(RELEASES)]
        file = tmp_path / "requests.log"
        file.write_bytes(written(random, logged(release), reached))
        assert found_in(file) == found_in(log_of(release)), f"seed {seed}, Kafka {release}"
    assert reached.keys() >= LAYOUTS.keys() | RUNTIMES.keys()
    assert len(reached.keys() & ORDERS.keys()) >= 4
