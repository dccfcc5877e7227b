"""The request logs that the simulated brokers would have written.

A line has the form of `kafka.request.logger`, and is written when its response is *completed*:
after it was made and sent. A busy network thread completes a response late, so lines can be in
another order than their responses. A request that ends with its broker has no line.

Replication and requests between brokers are not logged, except WriteTxnMarkers.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.kafka_apis import KAFKA_APIS, WRITE_TXN_MARKERS
from brokertwin.simulation.clock import START_MS

PORT = 9092
"""Port of every broker; broker 2 has the address 10.0.0.2."""

LATE, LATE_MAX_MS = 0.08, 60
"""Probability that a network thread completes a response late, and by how much at most."""

FAST_MAX_MS = 2
SKEW_MAX_MS = 4
"""Maximum difference of a broker's clock, as NTP leaves it."""

_json = msgspec.json.Encoder()


class LogLine(NamedTuple):
    """A line of a broker's log; `time` is ms since 1970 on the broker's clock."""

    time: int
    broker: int
    text: str


class _Waiting(NamedTuple):
    broker: int
    header: Mapping[str, Any]
    body: Mapping[str, Any]
    connection: str
    since: int


class RequestLogs:
    """Collects the lines of all brokers."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(f"{seed}/request logs")
        self._waiting: dict[str, _Waiting] = {}
        self._hosts: dict[str, str] = {}
        self._ports: dict[str, int] = {}
        self._skews: dict[int, int] = {}
        self._free_at: dict[str, int] = {}
        self._lines: list[tuple[int, int, LogLine]] = []

    def requested(
        self,
        request_id: str,
        broker: int,
        header: Mapping[str, Any],
        body: Mapping[str, Any],
        instance: str,
        connection: str,
        now: int,
    ) -> None:
        """Note a request when its broker takes it.

        Args:
            request_id: unique.
            broker: its id.
            header: of the request.
            body: of the request, with batches.
            instance: name of the client's process.
            connection: unique name of the connection.
            now: ms since 1970.
        """
        local, remote = f"10.0.0.{broker}:{PORT}", self._remote(instance, connection)
        waiting = _Waiting(broker, header, body, f"{local}-{remote}-0-1", now)
        self._waiting[request_id] = waiting

    def responded(self, request_id: str, response: Any, now: int) -> None:
        """Write the line of a request; `response` is None without one."""
        waiting = self._waiting.pop(request_id, None)
        if waiting is None:
            return
        is_late = self._chance.random() < LATE
        sent_ms = self._chance.randint(0, LATE_MAX_MS if is_late else FAST_MAX_MS)
        end = max(now + sent_ms, self._free_at.get(waiting.connection, 0))
        self._free_at[waiting.connection] = end
        local_ms, total_ms = now - waiting.since, end - waiting.since
        skew = self._skews.setdefault(
            waiting.broker, self._chance.randint(-SKEW_MAX_MS, SKEW_MAX_MS)
        )
        api = KAFKA_APIS[waiting.header["requestApiKey"]]
        document = {
            "isForwarded": False,
            "requestHeader": {**waiting.header, "requestApiKeyName": api.name},
            "request": _sized(waiting.body),
            "response": "" if response is None else _sized(response),
            "connection": waiting.connection,
            "totalTimeMs": float(total_ms),
            "requestQueueTimeMs": 0.0,
            "localTimeMs": 0.0,
            "remoteTimeMs": float(local_ms),
            "throttleTimeMs": (response or {}).get("throttleTimeMs", 0),
            "responseQueueTimeMs": 0.0,
            "sendTimeMs": float(end - now),
            "securityProtocol": "PLAINTEXT",
            "principal": "User:ANONYMOUS",
            "listener": "PLAINTEXT",
            "clientInformation": {"softwareName": "brokertwin", "softwareVersion": "1"},
        }
        time = end + skew
        stamp = datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        text = (
            f"[{stamp},{time % 1000:03d}] DEBUG Completed request:"
            f"{_json.encode(document).decode()} (kafka.request.logger)"
        )
        self._lines.append((end, len(self._lines), LogLine(time, waiting.broker, text)))

    def between(
        self, sender: int, receiver: int, body: Mapping[str, Any], response: Any, now: int
    ) -> None:
        name = f"broker-{sender}-txn-marker-sender"
        header = {
            "requestApiKey": WRITE_TXN_MARKERS.key,
            "requestApiVersion": 1,
            "correlationId": len(self._lines),
            "clientId": name,
        }
        request_id = f"{name}/{len(self._lines)}"
        self.requested(request_id, receiver, header, body, name, f"{name}-{receiver}", now)
        self.responded(request_id, response, now)

    def by_broker(self) -> dict[int, list[LogLine]]:
        """Return the lines of each broker, in the order in which it wrote them."""
        lines: dict[int, list[LogLine]] = {}
        for _, _, line in sorted(self._lines):
            lines.setdefault(line.broker, []).append(line)
        return dict(sorted(lines.items()))

    def _remote(self, instance: str, connection: str) -> str:
        host = self._hosts.setdefault(instance, f"10.0.1.{len(self._hosts) + 1}")
        port = self._ports.setdefault(connection, 40_000 + len(self._ports))
        return f"{host}:{port}"


def write_logs(
    lines: Mapping[int, list[LogLine]], folder: Path, rolled_after: int | None = None
) -> list[Path]:
    """Write a request log for each broker, as Kafka's log4j2.yaml names and rolls them.

    `rolled_after`: begin a new file after this number of lines.

    Returns:
        The files; those of a broker from the oldest to the newest.
    """
    paths = []
    for broker, written in lines.items():
        size = rolled_after or max(len(written), 1)
        parts = [written[at : at + size] for at in range(0, len(written), size)]
        for number, part in enumerate(parts, start=1):
            name = f"broker-{broker}.kafka-request.log"
            if number < len(parts):
                name += f".{_hour(number)}"
            path = folder / name
            path.write_text("".join(f"{line.text}\n" for line in part), encoding="utf-8")
            paths.append(path)
    return paths


def _hour(number: int) -> str:
    begin = datetime.fromtimestamp(START_MS / 1000, UTC)
    return f"{begin:%Y-%m-%d}-{number:02d}"


def _sized(body: Any) -> Any:
    """Return a body with the sizes of record sets in place of batches."""
    if isinstance(body, dict):
        return dict(_sized_fields(body))
    if isinstance(body, list):
        return [_sized(each) for each in body]
    return body


def _sized_fields(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in body.items():
        if name == "batches":
            sizes = [each.get("sizeInBytes", 0) for each in value or ()]
            yield "recordsSizeInBytes", sum(sizes) if value is not None else None
        else:
            yield name, _sized(value)
