"""A real controller, live or replayed, and a bench: brokers register at both."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.protocol import schemas
from brokertwin.protocol.primitives import uuid_of
from brokertwin.settings import default_home
from brokertwin.state.cluster import topics
from tests.support.goldens import IS_LIVE, Track, connection_to, started, tape
from tests.support.machine import CLUSTER, Bench
from tests.support.patience import wait_until
from tests.support.replicas import FEATURES

NOT_CONTROLLER = 41
LISTENER = "CLIENT"
APIS = ("BrokerRegistration", "BrokerHeartbeat", "AssignReplicasToDirs")
Body = dict[str, Any]


def at(name: str = LISTENER, host: str = "h", port: int = 1234, protocol: int = 0) -> Body:
    return {"name": name, "host": host, "port": port, "securityProtocol": protocol}


class Both:
    """A real controller and a bench; the brokers 50 and up register at both."""

    def __init__(self, recording: Track, home: Path, address: Address) -> None:
        self._recording, self._home, self._address = recording, home, address
        self.cluster_id = recording.drawn("cluster id", self._real_cluster_id)
        self.bench = Bench(brokers=(1,))

    def _real_cluster_id(self) -> str:
        return str(properties.read(self._home / "data" / "meta.properties")["cluster.id"])

    def _controller_port(self) -> int:
        voters = properties.read(self._home / "server.properties")["controller.quorum.voters"]
        return int(voters.rpartition(":")[2])

    def real(self, api: str, version: int, body: Body, is_controller: bool = False) -> Body:
        def send() -> Body:
            port = self._controller_port() if is_controller else self._address.port
            conn = connection_to(Address(self._address.host, port))
            try:
                return dict(conn.call(api, version, body))
            finally:
                conn.close()

        return self._recording.response([api, version, body, is_controller], send)

    def controller(self, api: str, version: int, body: Body) -> Body:
        responses: list[Body] = []

        def is_completed() -> bool:
            responses.append(self.real(api, version, body, is_controller=True))
            return bool(responses[-1]["errorCode"] != NOT_CONTROLLER)

        wait_until(is_completed, "there is a controller")
        return responses[-1]

    def registered(
        self, broker: int, version: int, changed: Body, dirs: Sequence[bytes] | None = None
    ) -> tuple[Body, Body]:
        """Return the responses to a registration that is valid except for these changes."""
        found = [bytes([broker, 9] * 8)] if dirs is None else dirs
        body = {"brokerId": broker, "listeners": [at()], "features": FEATURES, "rack": None}
        body |= {"isMigratingZkBroker": False, "previousBrokerEpoch": -1}
        body |= {"incarnationId": uuid_of(bytes([broker] * 16))}
        body |= {"logDirs": [uuid_of(each) for each in found]}
        real = body | {"clusterId": self.cluster_id}
        ours = body | {"clusterId": topics.derive_uuid("cluster", CLUSTER)}
        return (
            self.controller("BrokerRegistration", version, real | changed),
            self.bench.request("BROKER_REGISTRATION", version, ours | changed),
        )

    def unfenced(self, broker: int, epochs: tuple[int, int]) -> None:
        beat = {"brokerId": broker, "currentMetadataOffset": 10**6, "wantFence": False}
        beat |= {"wantShutDown": False, "offlineLogDirs": []}
        real, ours = epochs
        assert not self.controller("BrokerHeartbeat", 1, beat | {"brokerEpoch": real})["isFenced"]
        response = self.bench.request("BROKER_HEARTBEAT", 1, beat | {"brokerEpoch": ours})
        assert response["isFenced"] is False

    def reported(self, api: str, name: str, version: int, body: Body) -> tuple[Body, Body]:
        return (
            plain(self.real(api, version, body)),
            plain(self.bench.request(name, version, body, listener=LISTENER)),
        )


def plain(response: Body) -> Body:
    """Return a response without ids, the controller and broker 1's address; in the order of ids."""
    kept = {k: v for k, v in response.items() if k not in ("clusterId", "controllerId")}
    brokers = [each for each in kept.pop("brokers", []) if 1 not in each.values()]
    kept["brokers"] = sorted(brokers, key=lambda each: each.get("nodeId", each.get("brokerId")))
    for topic in kept.get("topics", ()):
        topic.pop("topicId", None)
    return kept


@contextmanager
def real_controller(
    home: Path, golden: str, settings: Mapping[str, str] | None = None
) -> Iterator[Both]:
    with (
        broker_schemas() if IS_LIVE else nullcontext(),
        started(EmbeddedKafka(home, default_home()), settings) as address,
        tape(golden, settings) as recording,
    ):
        yield Both(recording, home, address)


@contextmanager
def broker_schemas() -> Iterator[None]:
    """Add the schemas of brokers' own requests to those of clients' requests."""
    keys = {name: key for key, name in schemas.MODELLED_NAMES.items() if name in APIS}
    added = [f"{name}{side}" for name in keys for side in ("Request", "Response")]
    schemas.MESSAGES.update({name: schemas.message(name) for name in added})
    schemas.API_KEYS.update(keys)
    schemas.API_NAMES.update({key: name for name, key in keys.items()})
    try:
        yield
    finally:
        for name in added:
            del schemas.MESSAGES[name]
        for name, key in keys.items():
            del schemas.API_KEYS[name], schemas.API_NAMES[key]
