"""A real Kafka of several brokers: an embedded broker, and others that join it."""

import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home


class KafkaWithDisks(EmbeddedKafka):
    """A broker with its logs in `data` and, if it has more disks, in `disk-2` and so on."""

    disks = 1

    def _write_properties(self, settings: Mapping[str, str]) -> None:
        super()._write_properties(settings)
        own = properties.read(self._properties)
        more = [str(self.home / f"disk-{number}") for number in range(2, self.disks + 1)]
        own["log.dirs"] = ",".join([own["log.dirs"], *more])
        self._properties.write_text(properties.dump(own), encoding="utf-8")


class JoiningKafka(KafkaWithDisks):
    """A broker that belongs to the cluster of another one, which is its controller."""

    def __init__(self, first: EmbeddedKafka, node_id: int, home: Path) -> None:
        super().__init__(home, default_home())
        self._first = first
        self._node_id = node_id

    def _write_properties(self, settings: Mapping[str, str]) -> None:
        super()._write_properties(settings)
        own = properties.read(self._properties)
        own["process.roles"] = "broker"
        own["node.id"] = str(self._node_id)
        own["listeners"] = own["advertised.listeners"]
        first = properties.read(self._first.home / "server.properties")
        own["controller.quorum.voters"] = first["controller.quorum.voters"]
        self._properties.write_text(properties.dump(own), encoding="utf-8")

    def _format(self, java: list[str]) -> None:
        if (self.home / "data" / "meta.properties").is_file():
            return  # it starts again
        cluster = properties.read(self._first.home / "data" / "meta.properties")["cluster.id"]
        tool = ["kafka.tools.StorageTool", "format", "-c", str(self._properties), "-t", cluster]
        subprocess.run([*java, *tool], capture_output=True, check=True)


@contextmanager
def kafka_cluster(
    home: Path,
    brokers: int,
    settings: Mapping[str, str] | None = None,
    racks: Mapping[int, str] | None = None,
    disks: int = 1,
    request_log: bool = False,
) -> Iterator[dict[int, tuple[EmbeddedKafka, str]]]:
    """The brokers 1 to `brokers` and their addresses, by node id; `settings` are for each.

    Each has this number of `disks` (`log.dirs`).
    """

    def start(node_id: int) -> str:
        rack = {"broker.rack": racks[node_id]} if racks else {}
        return nodes[node_id].start({**(settings or {}), **rack}, request_log=request_log)

    first = KafkaWithDisks(home / "1", default_home())
    nodes = {1: first} | {
        node_id: JoiningKafka(first, node_id, home / str(node_id))
        for node_id in range(2, brokers + 1)
    }
    with ExitStack() as stack:
        for node in nodes.values():
            node.disks = disks
            stack.callback(node.stop)
        addresses = [start(1)]
        with ThreadPoolExecutor() as pool:
            addresses += pool.map(start, range(2, brokers + 1))
        yield {n: (nodes[n], address) for n, address in zip(nodes, addresses, strict=True)}
