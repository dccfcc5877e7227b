"""Records the accidents: `make record NAME=score` all of them, `NAME=score/redeployed` one.

A folder for each accident in `goldens` has the request logs of three real brokers, cut to its time,
the lines of their logs that say what the coordinators and the controller did, and what the script
did.
"""

import gzip
import json
import re
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path

from tests.score.accidents import ACCIDENTS
from tests.score.real_cluster import RealCluster, real_cluster, wait_s

GOLDENS = Path(__file__).parent / "goldens"
TELLING = re.compile(
    r"GroupCoordinator|GroupMetadataManager|TransactionCoordinator|TransactionStateManager"
    r"|Fencing broker|unfenced|The ISR|controlled shutdown|cleaned log"
)
SETTLE_S = 4


def record(cluster: RealCluster, name: str) -> None:
    before, begin = cluster.sizes(), int(time.time() * 1000)
    cluster.facts.clear()
    clients = []
    try:
        ACCIDENTS[name].run(cluster)
        wait_s(1)
    finally:
        clients = list(cluster.clients)
        cluster.end_clients()
    wait_s(SETTLE_S)
    end = int(time.time() * 1000)
    folder = GOLDENS / name
    folder.mkdir(parents=True, exist_ok=True)
    logged = []
    for broker, node in cluster.nodes.items():
        logged_before, requested_before = before[broker]
        new = _lines(node.request_log.read_bytes()[requested_before:])
        _write(folder / f"broker-{broker}.kafka-request.log.gz", new)
        lines = _lines(cluster.log(broker)[logged_before:]).decode().splitlines()
        logged += [f"broker-{broker} {line}" for line in lines if TELLING.search(line)]
    _write(folder / "server.log.gz", "".join(f"{line}\n" for line in logged).encode())
    said = {client.name: client.said for client in clients}
    document = {"begin": begin, "end": end, "facts": cluster.facts, "said": said}
    _write(folder / "script.json.gz", json.dumps(document).encode())


def _lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file, gzip.GzipFile(path.name, "wb", 9, file, mtime=0) as zipped:
        zipped.write(content)


def main(names: list[str]) -> None:
    for settings, group in groupby(names or ACCIDENTS, lambda name: ACCIDENTS[name].settings):
        with tempfile.TemporaryDirectory() as home, real_cluster(Path(home), settings) as cluster:
            for name in group:
                started = time.monotonic()
                try:
                    record(cluster, name)
                except AssertionError as error:
                    sys.stdout.write(f"{name}: failed: {error}\n")
                    continue
                size = sum(f.stat().st_size for f in (GOLDENS / name).iterdir())
                sys.stdout.write(
                    f"{name}: {time.monotonic() - started:.0f} s, {size // 1024} KiB\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main([each.removeprefix("score/") for each in sys.argv[1:] if each != "score"])
