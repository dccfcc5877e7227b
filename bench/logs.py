"""Time and memory of the tools that read request logs, beside floors.

    python bench/logs.py                                 the table by size, and by partitions
    python bench/logs.py --sizes 30 100 300 1000         sizes in MB
    python bench/logs.py --write DIR --sizes 100         only write a log
    python bench/logs.py --plot FILE.md logs.svg         only draw the table by size in a file

The log is of a cluster with 3 brokers, a file each, 200 clients, 50 groups and 100 transactional
ids. A line has about 1.2 KB; 86% of them are FETCH and PRODUCE. Nothing in it is wrong. The same
arguments write the same bytes.

Floors count lines (`wc`), parse the JSON and count APIs (`jq`, DuckDB), or decode it (msgspec).
Each program runs alone; `CPU` is the processor time of all its processes, `peak` their greatest
memory together, with what they share counted once. The run fails if the time or the memory of a
brokertwin command grows faster than the log, or than the number of entries of partitions.
"""

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psutil

MB = 1_000_000
BROKERS, GROUPS, TRANSACTIONAL_IDS, TOPICS, PARTITIONS = 3, 50, 100, 50, 12
START = datetime(2026, 11, 28, 12, tzinfo=UTC)
LINES_A_SECOND = 1_000
PRODUCES = 5
"""PRODUCE requests of a transaction."""

WEIGHTS = {"produce": 31, "consume": 29, "follow": 32, "heartbeat": 5, "commit": 3}
COLORS = (
    *("#888", "#d62728", "#ff7f0e", "#1f77b4", "#2ca02c", "#9467bd"),
    *("#8c564b", "#17becf", "#e377c2", "#bcbd22", "#000", "#aec7e8"),
)
"""One for each of `programs`."""

LOOK_S = 0.5
"""How often the memory of several processes is measured."""

GROWTH_MAX = 1.35
"""How much faster than the log a time may grow; a run differs by 15% from another one."""

JQ = 'capture("Completed request:(?<j>.*) \\\\(kafka").j|fromjson|.requestHeader.requestApiKey'
MSGSPEC = """
import sys, msgspec
decoder = msgspec.json.Decoder()
for name in sys.argv[1:]:
    for line in open(name, "rb"):
        decoder.decode(line[line.index(b"{") : line.rindex(b"}") + 1])
"""
DUCKDB = """
import sys, duckdb
files = [str(name) for name in sys.argv[1:]]
duckdb.execute("SET threads = 1")
print(duckdb.execute(
    "SELECT regexp_extract(l, 'Completed request:(.*) .kafka', 1)"
    "->>'$.requestHeader.requestApiKey' AS api, count(*)"
    " FROM read_csv(?, columns={'l': 'VARCHAR'}, delim='\\x01', quote='', header=false,"
    " max_line_size=100000000) GROUP BY api", [files]).fetchall())
"""


class Measured(NamedTuple):
    """Processor time in s and greatest memory in MB."""

    cpu_s: float
    peak_mb: float


class Traffic:
    """Writes the lines of a cluster in the order of their responses.

    Args:
        entries: partitions in a Fetch.
    """

    def __init__(self, entries: int) -> None:
        self._random = random.Random(1)
        self._entries = entries
        self._ends = [[0] * PARTITIONS for _ in range(TOPICS)]
        self._sent = [0] * TRANSACTIONAL_IDS
        self._epochs = [0] * TRANSACTIONAL_IDS
        self._hosts: dict[str, int] = {}
        self._connections: dict[tuple[str, int], int] = {}
        self._numbers: dict[int, int] = {}
        self._sessions: dict[tuple[str, int], list[int]] = {}
        self._count = 0

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield brokers and lines without end."""
        yield from self._begin()
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        while True:
            for kind in self._random.choices(kinds, weights, k=1_000):
                yield from getattr(self, f"_{kind}")()

    def _line(
        self, broker: int, client: str, api: tuple[int, str, int], request: str, response: str
    ) -> tuple[int, str]:
        key, name, version = api
        host = self._hosts.setdefault(client, len(self._hosts))
        index = self._connections.setdefault((client, broker), len(self._connections))
        number = self._numbers[index] = self._numbers.get(index, 0) + 1
        connection = f"10.0.0.{broker}:9092-10.0.1.{host}:{40000 + index}-0-{index}"
        self._count += 1
        at = START + timedelta(milliseconds=self._count * 1000 // LINES_A_SECOND)
        stamp = f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}"
        return broker, (
            f'[{stamp}] DEBUG Completed request:{{"isForwarded":false,"requestHeader":'
            f'{{"requestApiKey":{key},"requestApiVersion":{version},"correlationId":{number},'
            f'"clientId":"{client}","requestApiKeyName":"{name}"}},"request":{request},'
            f'"response":{response},"connection":"{connection}","totalTimeMs":2.5,'
            '"requestQueueTimeMs":0.1,"localTimeMs":0.6,"remoteTimeMs":1.0,"throttleTimeMs":0,'
            '"responseQueueTimeMs":0.08,"sendTimeMs":0.2,"securityProtocol":"PLAINTEXT",'
            '"principal":"User:ANONYMOUS","listener":"CLIENT","clientInformation":'
            '{"softwareName":"apache-kafka-java","softwareVersion":"4.3.1"}}'
            " (kafka.request.logger)\n"
        )

    def _begin(self) -> Iterator[tuple[int, str]]:
        brokers = ",".join(
            f'{{"nodeId":{b},"host":"10.0.0.{b}","port":9092,"rack":null}}'
            for b in range(1, BROKERS + 1)
        )
        for topic in range(TOPICS):
            partitions = ",".join(
                f'{{"errorCode":0,"partitionIndex":{p},"leaderId":{leader(topic, p)},'
                f'"leaderEpoch":0,"replicaNodes":[1,2,3],"isrNodes":[1,2,3],"offlineReplicas":[]}}'
                for p in range(PARTITIONS)
            )
            yield self._line(
                1 + topic % BROKERS,
                f"reader-{topic}-0",
                (3, "METADATA", 13),
                f'{{"topics":[{{"topicId":"AAAAAAAAAAAAAAAAAAAAAA","name":"topic-{topic}"}}],'
                '"allowAutoTopicCreation":true,"includeTopicAuthorizedOperations":false}',
                f'{{"throttleTimeMs":0,"brokers":[{brokers}],"clusterId":"bGF2ZW5kZXI","controllerId":1,'
                f'"topics":[{{"errorCode":0,"name":"topic-{topic}","topicId":"{topic_id(topic)}",'
                f'"isInternal":false,"partitions":[{partitions}],"topicAuthorizedOperations":-2147483648}}],'
                '"errorCode":0}',
            )
        for producer in range(TRANSACTIONAL_IDS):
            yield self._line(
                1 + producer % BROKERS,
                f"writer-{producer}",
                (22, "INIT_PRODUCER_ID", 5),
                f'{{"transactionalId":"txn-{producer}","transactionTimeoutMs":60000,"producerId":-1,'
                '"producerEpoch":-1}',
                f'{{"throttleTimeMs":0,"errorCode":0,"producerId":{1000 + producer},'
                '"producerEpoch":0}',
            )
        for group in range(GROUPS):
            for member in (0, 1):
                yield self._line(
                    1 + group % BROKERS,
                    f"reader-{group}-{member}",
                    (11, "JOIN_GROUP", 9),
                    f'{{"groupId":"group-{group}","sessionTimeoutMs":45000,"rebalanceTimeoutMs":300000,'
                    f'"memberId":"{member_id(group, member)}","groupInstanceId":null,'
                    '"protocolType":"consumer","protocols":[{"name":"range","metadata":"AAA="}],'
                    '"reason":""}',
                    f'{{"throttleTimeMs":0,"errorCode":0,"generationId":1,"protocolType":"consumer",'
                    f'"protocolName":"range","leader":"{member_id(group, 0)}",'
                    f'"skipAssignment":false,"memberId":"{member_id(group, member)}",'
                    '"members":[]}',
                )

    def _produce(self) -> Iterator[tuple[int, str]]:
        producer = self._random.randrange(TRANSACTIONAL_IDS)
        topic, partition = producer % TOPICS, self._random.randrange(PARTITIONS)
        offset = self._ends[topic][partition]
        self._ends[topic][partition] += 10
        client = f"writer-{producer}"
        yield self._line(
            leader(topic, partition),
            client,
            (0, "PRODUCE", 12),
            f'{{"transactionalId":"txn-{producer}","acks":-1,"timeoutMs":30000,"topicData":'
            f'[{{"name":"topic-{topic}","partitionData":[{{"index":{partition},'
            '"recordsSizeInBytes":12345}]}]}',
            f'{{"responses":[{{"name":"topic-{topic}","partitionResponses":[{{"index":{partition},'
            f'"errorCode":0,"baseOffset":{offset},"logAppendTimeMs":-1,"logStartOffset":0,'
            '"recordErrors":[],"errorMessage":null}]}],"throttleTimeMs":0}',
        )
        self._sent[producer] += 1
        if self._sent[producer] == PRODUCES:
            self._sent[producer] = 0
            epoch = self._epochs[producer]
            self._epochs[producer] = (epoch + 1) % 30_000
            yield self._line(
                1 + producer % BROKERS,
                client,
                (26, "END_TXN", 5),
                f'{{"transactionalId":"txn-{producer}","producerId":{1000 + producer},'
                f'"producerEpoch":{epoch},"committed":true}}',
                f'{{"throttleTimeMs":0,"errorCode":0,"producerId":{1000 + producer},'
                f'"producerEpoch":{self._epochs[producer]}}}',
            )

    def _fetch(
        self, broker: int, client: str, replica: int, topic: int, entries: int
    ) -> tuple[int, str]:
        epoch = 12 if replica >= 0 else -1
        session, fetches = self._sessions.setdefault((client, broker), [len(self._sessions), 0])
        self._sessions[client, broker][1] += 1
        asked, given = [], []
        for at in range(entries):
            partition = at % PARTITIONS if entries <= PARTITIONS else at
            end = self._ends[topic][partition % PARTITIONS]
            asked.append(
                f'{{"partition":{partition},"currentLeaderEpoch":0,"fetchOffset":{end},'
                '"lastFetchedEpoch":0,"logStartOffset":0,"partitionMaxBytes":1048576}'
            )
            given.append(
                f'{{"partitionIndex":{partition},"errorCode":0,"highWatermark":{end},'
                f'"lastStableOffset":{end},"logStartOffset":0,"abortedTransactions":null,'
                '"preferredReadReplica":-1,"recordsSizeInBytes":12345}'
            )
        return self._line(
            broker,
            client,
            (1, "FETCH", 17),
            f'{{"replicaState":{{"replicaId":{replica},"replicaEpoch":{epoch}}},'
            '"maxWaitMs":500,"minBytes":1,"maxBytes":10485760,"isolationLevel":1,'
            f'"sessionId":{1 + session},"sessionEpoch":{fetches + 1},"topics":'
            f'[{{"topicId":"{topic_id(topic)}","partitions":[{",".join(asked)}]}}],'
            '"forgottenTopicsData":[],"rackId":""}',
            f'{{"throttleTimeMs":0,"errorCode":0,"sessionId":{1 + session},"responses":'
            f'[{{"topicId":"{topic_id(topic)}","partitions":[{",".join(given)}]}}]}}',
        )

    def _consume(self) -> Iterator[tuple[int, str]]:
        group, member = self._random.randrange(GROUPS), self._random.randrange(2)
        broker = 1 + self._random.randrange(BROKERS)
        client = f"reader-{group}-{member}"
        yield self._fetch(broker, client, -1, group % TOPICS, min(self._entries, 2))

    def _follow(self) -> Iterator[tuple[int, str]]:
        broker = 1 + self._random.randrange(BROKERS)
        replica = 1 + (broker + self._random.randrange(BROKERS - 1)) % BROKERS
        client = f"broker-{replica}-fetcher-0"
        yield self._fetch(broker, client, replica, self._random.randrange(TOPICS), self._entries)

    def _heartbeat(self) -> Iterator[tuple[int, str]]:
        group, member = self._random.randrange(GROUPS), self._random.randrange(2)
        yield self._line(
            1 + group % BROKERS,
            f"reader-{group}-{member}",
            (12, "HEARTBEAT", 4),
            f'{{"groupId":"group-{group}","generationId":1,"memberId":"{member_id(group, member)}",'
            '"groupInstanceId":null}',
            '{"throttleTimeMs":0,"errorCode":0}',
        )

    def _commit(self) -> Iterator[tuple[int, str]]:
        group, member = self._random.randrange(GROUPS), self._random.randrange(2)
        topic = group % TOPICS
        parts = range(member, PARTITIONS, 2)
        asked = ",".join(
            f'{{"partitionIndex":{p},"committedOffset":{self._ends[topic][p]},'
            '"committedLeaderEpoch":0,"committedMetadata":""}'
            for p in parts
        )
        given = ",".join(f'{{"partitionIndex":{p},"errorCode":0}}' for p in parts)
        yield self._line(
            1 + group % BROKERS,
            f"reader-{group}-{member}",
            (8, "OFFSET_COMMIT", 9),
            f'{{"groupId":"group-{group}","generationIdOrMemberEpoch":1,'
            f'"memberId":"{member_id(group, member)}","groupInstanceId":null,"topics":'
            f'[{{"name":"topic-{topic}","partitions":[{asked}]}}]}}',
            f'{{"throttleTimeMs":0,"topics":[{{"name":"topic-{topic}","partitions":[{given}]}}]}}',
        )


def leader(topic: int, partition: int) -> int:
    return 1 + (topic + partition) % BROKERS


def topic_id(topic: int) -> str:
    return f"topicWithTheNumber{topic:04d}"


def member_id(group: int, member: int) -> str:
    return f"reader-{group}-{member}-5d66ebba-695c-4efc-aeae-d82e6715a908"


def write(directory: Path, size: int, entries: int = 2) -> list[Path]:
    """Write a log of about this size in bytes; return its files."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"broker-{broker}.kafka-request.log" for broker in range(1, BROKERS + 1)]
    files = [path.open("w", encoding="ascii") for path in paths]
    try:
        for broker, line in Traffic(entries).lines():
            size -= files[broker - 1].write(line)
            if size <= 0:
                return paths
    finally:
        for file in files:
            file.close()
    return paths


def programs(only: Sequence[str]) -> dict[str, list[str]]:
    """Command lines by name, without the files."""
    brokertwin = [sys.executable, "-m", "brokertwin"]
    jq = [shutil.which("jq") or "", "-R", JQ]
    found = {
        "wc": [shutil.which("wc") or "", "-l"],
        "msgspec": [sys.executable, "-c", MSGSPEC],
        "jq": jq,
        "duckdb": [sys.executable, "-c", DUCKDB],
        "explain group": [*brokertwin, "explain", "group", "group-7"],
        "explain transaction": [*brokertwin, "explain", "transaction", "txn-7"],
        "explain producer": [*brokertwin, "explain", "producer", "txn-7"],
        "explain client": [*brokertwin, "explain", "client", "reader-7-0"],
        "explain partition": [*brokertwin, "explain", "partition", "topic-7-3"],
        "audit --jobs 1": [*brokertwin, "audit", "--jobs", "1"],
        "audit --jobs 2": [*brokertwin, "audit", "--jobs", "2"],
        "ingest": [*brokertwin, "ingest", "--out", os.devnull],
    }
    return {name: words for name, words in found.items() if words[0] and (not only or name in only)}


def run(words: Sequence[str], files: Sequence[Path]) -> Measured:
    """Run a program alone."""
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [*words, *map(str, files)], stdout=subprocess.DEVNULL, stderr=errors
        )
        together = 0.0
        while not (ended := os.wait4(child.pid, os.WNOHANG))[0]:
            together = max(together, memory_of(psutil.Process(child.pid)))
            time.sleep(LOOK_S)
        _, status, usage = ended
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 1):
            errors.seek(0)
            sys.exit(f"{' '.join(words)}: {errors.read().decode()[-2000:]}")
    peak = max(together, usage.ru_maxrss * 1024)
    return Measured(usage.ru_utime + usage.ru_stime, peak / 2**20)


def memory_of(process: psutil.Process) -> float:
    """Memory of several processes together in bytes; 0 if there is one, or it has ended."""
    try:
        others = process.children(recursive=True)
        return sum(e.memory_full_info().pss for e in (process, *others)) if others else 0
    except psutil.Error:
        return 0


def table(title: str, heads: Sequence[str], rows: dict[str, list[Measured]]) -> None:
    print(f"\n| {title} | {' | '.join(f'{each}: CPU, peak' for each in heads)} |")
    print(f"|{'---|' * (len(heads) + 1)}")
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(f'{m.cpu_s:.2f} s, {m.peak_mb:.0f} MB' for m in row)} |")


def rows_in(text: str) -> tuple[list[int], dict[str, list[Measured]]]:
    """The sizes in MB and the rows of the first table by size in a text."""
    head, _, *rows = text[text.index("| program | ") :].partition("\n\n")[0].splitlines()
    sizes = [int(each.split()[0]) for each in head.strip("| ").split(" | ")[1:]]
    cells = [row.strip("| ").split(" | ") for row in rows]
    return sizes, {
        name: [Measured(float(each.split()[0]), float(each.split()[2])) for each in measured]
        for name, *measured in cells
    }


def drawn(sizes: Sequence[int], rows: dict[str, list[Measured]]) -> str:
    """Draw processor time and memory by the size of the log as SVG; both axes are logarithmic."""
    panels = (
        ("processor time, s", [[each.cpu_s for each in row] for row in rows.values()]),
        ("memory, MB", [[each.peak_mb for each in row] for row in rows.values()]),
    )
    shapes = []
    for panel, (title, lines) in enumerate(panels):
        left, low, high = 50 + panel * 300, *decades(value for line in lines for value in line)

        def x(size: float, left: float = left) -> float:
            return round(left + 240 * math.log(size / sizes[0], sizes[-1] / sizes[0]), 1)

        def y(value: float, low: int = low, high: int = high) -> float:
            return round(230 - 200 * (math.log10(value) - low) / (high - low), 1)

        shapes.append(f'<text x="{left}" y="16" font-weight="bold">{title}</text>')
        for power in range(low, high + 1):
            at = y(10**power)
            shapes.append(f'<path d="M{left} {at}h240" stroke="#ccc"/>')
            shapes.append(
                f'<text x="{left - 5}" y="{at + 4}" text-anchor="end">{10**power:g}</text>'
            )
        shapes += (f'<text x="{x(e)}" y="246" text-anchor="middle">{e}</text>' for e in sizes)
        for color, line in zip(COLORS, lines, strict=False):
            points = [(x(size), y(value)) for size, value in zip(sizes, line, strict=True)]
            path = "L".join(f"{across} {down}" for across, down in points)
            shapes.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"/>')
    for at, (color, name) in enumerate(zip(COLORS, rows, strict=False)):
        left, top = 50 + at % 3 * 190, 278 + at // 3 * 18
        shapes.append(f'<path d="M{left} {top - 4}h20" stroke="{color}" stroke-width="3"/>')
        shapes.append(f'<text x="{left + 26}" y="{top}">{name}</text>')
    height = 290 + (len(rows) - 1) // 3 * 18
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 610 {height}" width="610"'
        ' font-family="sans-serif" font-size="11">\n'
        '<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(shapes)
        + '\n<text x="320" y="262" text-anchor="middle">log, MB</text>\n</svg>\n'
    )


def decades(values: Iterable[float]) -> tuple[int, int]:
    """Powers of ten around values."""
    logs = [math.log10(each) for each in values]
    return math.floor(min(logs)), math.ceil(max(logs))


def too_fast(rows: dict[str, list[Measured]], sizes: Sequence[float]) -> list[str]:
    """The programs of brokertwin whose time or memory grows faster than the log."""
    found = []
    for name, row in rows.items():
        if name in ("wc", "jq", "duckdb", "msgspec"):
            continue
        for (small, large), (first, last) in zip(pairwise(row), pairwise(sizes), strict=True):
            for what, one, other in (
                ("time", small.cpu_s, large.cpu_s),
                ("memory", small.peak_mb, large.peak_mb),
            ):
                if other > one * max(last / first, 1) * GROWTH_MAX:
                    found.append(f"{name}: {what} {one:.2f} -> {other:.2f} for {first} -> {last}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 30, 100], help="in MB")
    parser.add_argument("--partitions", type=int, nargs="*", default=[20, 200, 1000])
    parser.add_argument("--entries", type=int, default=60_000, help="partitions in all Fetches")
    parser.add_argument("--only", nargs="*", default=[], help="names of programs")
    parser.add_argument("--plot", type=Path, nargs=2, help="a file with the table; the SVG file")
    parser.add_argument("--write", type=Path, help="only write the log of the first size")
    given = parser.parse_args()
    if given.plot:
        source, target = given.plot
        target.write_text(drawn(*rows_in(source.read_text("utf-8"))), "utf-8")
        return
    if given.write:
        print("\n".join(map(str, write(given.write, given.sizes[0] * MB))))
        return
    chosen = programs(given.only)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="brokertwin-logs-") as name:
        rows: dict[str, list[Measured]] = {each: [] for each in chosen}
        for size in given.sizes:
            files = write(Path(name) / str(size), size * MB)
            for each, words in chosen.items():
                rows[each].append(run(words, files))
            shutil.rmtree(Path(name) / str(size))
        table("program", [f"{size} MB" for size in given.sizes], rows)
        wrong += too_fast(rows, given.sizes)
        rows = {each: [] for each in chosen}
        for entries in given.partitions:
            size = given.entries * (240 + 1000 // entries)
            files = write(Path(name) / str(entries), size, entries)
            for each, words in chosen.items():
                rows[each].append(run(words, files))
            shutil.rmtree(Path(name) / str(entries))
        if given.partitions:
            heads = [f"{entries} in a Fetch" for entries in given.partitions]
            table("program, the same partitions in all", heads, rows)
            wrong += too_fast(rows, [1.0] * len(given.partitions))
    if wrong:
        sys.exit("grows faster than the log:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
