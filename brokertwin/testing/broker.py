"""KafkaBroker: a broker, or a cluster of logical ones, for tests.

It runs in a thread of the test's process, on free local ports, and keeps everything in memory. Its
methods may be called from any other thread.
"""

import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from brokertwin.errors import UserError
from brokertwin.gateway.admin.api_versions import SERVED
from brokertwin.gateway.admin.releases import release, settings_of
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.faults.fault import (
    OF_THE_CONNECTION,
    WAIT_S,
    Fault,
    FaultSpec,
    api_key_of,
)
from brokertwin.gateway.faults.injection import FaultSet
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.gateway.server import Gateway
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.state.apis.create_topics import BY_DEFAULT
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from brokertwin.state.configs.broker_config import UnknownSettingError, parse
from brokertwin.state.configs.config_keys import InvalidConfigError
from brokertwin.testing import reading, securing, writing
from brokertwin.testing.engine import FaultyEngine
from brokertwin.testing.records import StoredRecord
from brokertwin.testing.threads import LoopThread
from brokertwin.testing.verbs import POLL_S, FaultVerbs
from brokertwin.wording import counted, with_full_stop

HOST = "127.0.0.1"
BROKERS_MAX = 100
DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}
"""Default that differs from Kafka's: a test's first consumer does not wait for others."""


class KafkaBroker(FaultVerbs):
    """A Kafka broker for tests, usually as the fixture `kafka_broker` or in a `with`.

    Args:
        brokers: number of logical brokers, with ids from 1.
        topics: initial topics: names, or names with numbers of partitions.
        config: broker settings by Kafka's names, including files for TLS (`ssl.keystore.location`).
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        users: passwords by user, or a file of `brokertwin credentials`, for SASL.
        version: release of Kafka (2.8, 3.4, 3.9, 4.0, 4.3 or 4.4) whose API versions are announced
            and accepted, 4.4 with its rules; None: all of 4.3.
        replication_factor: replicas of the initial topics, and of topics created with the default;
            None: the setting `default.replication.factor`.
        listen: host and port of the first broker; the others get the following ports. Port 0: any
            free port for each broker.
        advertise: address in metadata responses in place of `listen`, for clients in containers.

    Raises:
        UserError: an unknown setting or release, an invalid topic, or a missing or invalid file for
            TLS.
    """

    def __init__(
        self,
        brokers: int = 1,
        topics: Mapping[str, int] | Iterable[str] = (),
        config: Mapping[str, object] | None = None,
        security_protocol: str = "PLAINTEXT",
        users: Mapping[str, str] | Path | None = None,
        version: str | None = None,
        replication_factor: int | None = None,
        listen: tuple[str, int] = (HOST, 0),
        advertise: tuple[str, int] | None = None,
    ) -> None:
        if not 1 <= brokers <= BROKERS_MAX:
            raise UserError(f"Invalid brokers={brokers}.", f"Pass 1 to {BROKERS_MAX}.")
        if isinstance(topics, str):
            raise UserError(f"Invalid topics={topics!r}.", "Pass a list of names, or a dict.")
        self._topics = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self._release = None if version is None else release(version)
        config_texts = {name: _text(value) for name, value in (config or {}).items()}
        texts = {**DEFAULTS, **settings_of(self._release), **config_texts}
        if replication_factor is not None:
            texts["default.replication.factor"] = str(replication_factor)
        self._broker_ids = list(range(1, brokers + 1))
        self._settings = _settings(texts)
        self._security, self._folder = securing.security_of(security_protocol, texts, users or {})
        self._cluster = f"test-{uuid.uuid4()}"  # Kafka, too, draws an id for each cluster
        self._listen = Address(*listen)
        self._advertise = None if advertise is None else Address(*advertise)
        self.fault_set = FaultSet()
        self._thread = LoopThread("broker")
        self._call, self._run = self._thread.call, self._thread.run
        self._make()

    def _make(self) -> None:
        """Create an empty cluster."""
        self._engine = FaultyEngine(self._cluster, self._broker_ids, self._settings, self.fault_set)
        limits = GatewayLimits.of(self._settings.given)
        self._gateway = Gateway(
            self._engine, self._listen, self._advertise, limits, self._security, self._release
        )

    def start(self) -> Self:
        """Listen, and create the initial topics; a `with` does it."""
        self._thread.start()
        try:
            self._begin(None)
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self, ports: Mapping[int, int] | None) -> None:
        self._run(self._gateway.start(ports))
        self._run(writing.warm_up(self._engine))
        for name, partitions in self._topics.items():
            self.create_topic(name, partitions)

    def reset(self) -> None:
        """Forget everything but the addresses, for the next test of a shared broker.

        Connections are closed, faults end, and the initial topics are created again. Clients of
        the former test must be closed before, or they connect again.
        """
        ports = {broker: address.port for broker, address in self._gateway.addresses.items()}
        self.fault_set.clear()
        self._run(self._gateway.close())
        self._make()
        self._begin(ports)

    def close(self) -> None:
        """Close all connections and discard the state."""
        if not self._thread.is_running:
            return
        try:
            self.fault_set.clear()
            self._run(self._gateway.close())
        finally:
            self._thread.end()
            if self._folder is not None:
                self._folder.cleanup()

    @property
    def bootstrap_servers(self) -> list[str]:
        """Address of each broker, `host:port`."""
        return [f"{host}:{port}" for host, port in self._gateway.addresses.values()]

    @property
    def bootstrap(self) -> str:
        """Addresses as one string, for `bootstrap.servers`."""
        return ",".join(self.bootstrap_servers)

    # Content

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = BY_DEFAULT,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic and return its id. Raises UserError if Kafka would reject it.

        Without `replication_factor` it has `default.replication.factor` replicas.
        """
        configs = {key: _text(value) for key, value in (config or {}).items()}
        topic = writing.TopicToCreate(name, partitions, replication_factor, configs)
        return self._run(writing.create_topic(self._engine, topic))

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """Append records without a client; return the offset of the first one.

        A missing topic is created with one partition. Faults do not apply.

        Args:
            topic: topic name.
            values: one for each record; text is encoded as UTF-8.
            key: key of all records.
            headers: headers of all records.
            partition: target partition.
            timestamp_ms: timestamp of all records; default: the broker's time.

        Raises:
            UserError: Kafka would reject the records.
        """
        timestamp_ms = self._engine.now() if timestamp_ms is None else timestamp_ms
        batch = writing.batch(values, key, headers, timestamp_ms)
        return self._run(writing.produce(self._engine, topic, partition, batch))

    def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """Return the records of a topic or partition, by partition and offset."""
        return self._run(reading.records(self._engine, topic, partition))

    def committed_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return a group's committed offsets by topic and partition."""
        return self._call(lambda: reading.committed_offsets(self._engine, group))

    def _documents(self) -> list[dict[str, Any]]:
        return self._call(lambda: [each.document() for each in self._engine.seen])

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the leader of a partition. Raises UserError."""
        return self._call(lambda: reading.leader(self._engine, topic, partition))

    def coordinator(self, group: str) -> int:
        """Return the coordinator of a group. Raises UserError."""
        topic, partition = self._place_of(group)
        return self.leader(topic, partition)

    def wait_for_group(
        self,
        group: str,
        state: str | None = "Stable",
        members: int | None = None,
        timeout_s: float = WAIT_S,
    ) -> None:
        """Wait until a group of any kind has a state and a number of members.

        Args:
            group: group id.
            state: Kafka's name of the state, such as `Stable` or `Empty`; None: any.
            members: number of members; None: any.
            timeout_s: timeout of the wait.

        Raises:
            TimeoutError: names the state and the number of members at the end.
            UserError: no kind of group has this state.
        """
        if state is not None and state not in reading.GROUP_STATES:
            raise UserError(
                f"No group has the state {state}.", f"Use one of {', '.join(reading.GROUP_STATES)}."
            )
        deadline = time.monotonic() + timeout_s
        while True:
            found = self._call(lambda: reading.group_state(self._engine, group))
            if state in (None, found[0]) and members in (None, found[1]):
                return
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    f"Group {group}: {found[0]}, {counted(found[1], 'member')} after {timeout_s} s"
                )
            time.sleep(POLL_S)

    # Faults: see FaultVerbs

    def add_fault(self, spec: FaultSpec) -> Fault:
        """Add a fault, given like an entry of a fault file.

        Raises:
            UserError: unknown API, broker or error, or a value that does not fit.
        """
        self._brokers(spec.broker)
        key = None if spec.api is None else api_key_of(spec.api)
        if key in OF_THE_CONNECTION:
            raise UserError(
                f"Cannot inject faults into {KAFKA_APIS[key].name} of the test broker, whose"
                " connection handles it.",
                "Use a proxy in front of it: brokertwin.testing.KafkaProxy.",
            )
        if key is not None and key not in SERVED:
            raise UserError(
                f"{KAFKA_APIS[key].name} is not implemented, so clients do not send it."
            )
        return super().add_fault(spec)

    lose_answer = FaultVerbs.lose_response
    """Former name of `lose_response`."""

    def calm(self) -> None:
        """End all faults, release held requests, and resume paused brokers."""
        self.fault_set.clear()
        self.resume()

    # Trouble in the cluster

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Move a partition's leadership to another broker, with its log and producers.

        The leader epoch increases. The old leader answers `6 NOT_LEADER_OR_FOLLOWER` and names the
        new one.

        `to`: new leader; default: the next broker after the old one.

        Returns:
            The new leader's id.

        Raises:
            UserError: the partition does not exist, or there is no other broker.
        """
        old = self.leader(topic, partition)
        brokers = self._engine.brokers
        new = brokers[(brokers.index(old) + 1) % len(brokers)] if to is None else to
        if new == old:
            hint = "Start more: KafkaBroker(brokers=3) or @pytest.mark.kafka_broker(brokers=3)."
            raise UserError(
                f"Broker {old} already leads {topic}-{partition}, and the cluster has"
                f" {counted(len(brokers), 'broker')}.",
                hint if len(brokers) == 1 else "",
            )
        self._call(lambda: self._engine.move_leader(topic, partition, new))
        return new

    def move_coordinator(self, group: str, to: int | None = None) -> int:
        """Move a group to another coordinator, with all groups of the same partition.

        The old one answers `16 NOT_COORDINATOR`. `to`, the result and the errors are those of
        `move_leader`.
        """
        topic, partition = self._place_of(group)
        return self.move_leader(topic, partition, to)

    def expire_session(self, client: str | None = None, broker: int | None = None) -> list[int]:
        """Drop fetch sessions: the next incremental fetch gets `70 FETCH_SESSION_ID_NOT_FOUND`.

        Args:
            client: only sessions of this client id.
            broker: only sessions of this broker.

        Returns:
            The ids of the dropped sessions.
        """
        brokers = self._brokers(broker)
        return self._call(lambda: self._engine.expire_sessions(client, brokers))

    def expire_members(self, group: str, client: str | None = None) -> list[str]:
        """Expire members of a group as after their session timeout; the group rebalances.

        Their next heartbeat gets `25 UNKNOWN_MEMBER_ID`, and they join again.

        Args:
            group: a group of the classic protocol.
            client: only members with this client id.

        Returns:
            The ids of the expired members.
        """
        return self._call(lambda: self._engine.expire_members(group, client))

    def advance_time(self, milliseconds: int) -> None:
        """Advance the brokers' clock; everything due by then happens now.

        Long polls end, producers idle for `producer.id.expiration.ms` are dropped, and new records
        get the new time. Clients, connections and `delay` use this machine's clock.

        Raises:
            UserError: a negative time.
        """
        if milliseconds < 0:
            raise UserError(f"advance_time({milliseconds}): time cannot go back.")
        self._call(lambda: self._engine.advance(milliseconds))

    def pause(self, broker: int | None = None) -> None:
        """Stop responses of a broker, or all (except ApiVersions and SASL), until `resume`."""
        brokers = self._brokers(broker)
        self._call(lambda: self._engine.paused.update(brokers))

    def resume(self, broker: int | None = None) -> None:
        """Resume a broker, or all, starting with the requests received meanwhile."""
        brokers = self._brokers(broker)
        self._call(lambda: self._engine.resume(brokers))

    def fail_log_dir(self, directory: str, broker: int = 1) -> None:
        """Fail a log directory of a broker until its restart: its replicas are offline.

        The broker answers for them with `56 KAFKA_STORAGE_ERROR`, and other replicas become
        leaders. It halts if the first directory (or `metadata.log.dir`), or the last remaining one,
        fails.

        `directory`: a directory in the setting `log.dirs`.

        Raises:
            UserError: the directory does not exist or has already failed.
        """
        (named,) = self._brokers(broker)
        self._call(lambda: self._engine.fail_log_dir(named, directory))

    def kill(self, broker: int) -> None:
        """Kill a broker as with kill -9: its port and connections close, nothing is handed over.

        Its partitions have no leader, or another replica leads after `broker.session.timeout.ms`
        (see `advance_time`). Then `restart` starts it again.
        """
        (named,) = self._brokers(broker)
        self._call(lambda: self._engine.kill(named))

    def restart(self, broker: int | None = None) -> None:
        """Restart a broker, or all: connections close, fetch sessions are dropped.

        Topics, records, offsets and producers are kept, as on Kafka's disk, and so are ports.
        Failed log directories are repaired. A broker that has halted starts after the controller
        has fenced it: use `advance_time` by `broker.session.timeout.ms`.
        """
        brokers = self._brokers(broker)

        def start_again() -> None:
            self._engine.expire_sessions(None, brokers)
            self._gateway.disconnect(brokers)
            for each in brokers:
                self._engine.repair(each)

        self._call(start_again)

    # Implementation

    def _place_of(self, group: str) -> tuple[str, int]:
        """Return the internal topic and partition of a group."""
        topic = self._call(lambda: reading.topic_of(self._engine, GROUP_TOPIC))
        return GROUP_TOPIC, partition_for(group, len(topic.partitions))

    def _brokers(self, broker: int | None) -> list[int]:
        if broker is None:
            return list(self._engine.brokers)
        if broker not in self._engine.brokers:
            raise UserError(
                f"Broker {broker} does not exist.",
                f"The cluster has the brokers {self._engine.brokers}.",
            )
        return [broker]


def _text(value: object) -> str:
    """Format a setting like Kafka."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(config: Mapping[str, str]) -> Any:
    try:
        return parse(config)[0]
    except (UnknownSettingError, InvalidConfigError) as error:
        raise UserError(with_full_stop(error)) from None
