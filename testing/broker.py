"""KafkaBroker: a broker, or a cluster of logical ones, for tests.

It runs in a thread of the test's process, on free ports of this machine, and keeps everything in
memory. Its methods may be called from any thread but its own.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar, Unpack

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.gateway.server import Gateway
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from brokertwin.state.configs.broker_config import UnknownSettingError, parse
from brokertwin.state.configs.config_keys import InvalidConfigError
from brokertwin.state.core.kafka_apis import KAFKA_APIS
from brokertwin.testing import failures, reading, securing, writing
from brokertwin.testing.engine import TroubledEngine
from brokertwin.testing.records import StoredRecord
from brokertwin.testing.trouble import (
    WAIT_S,
    Effect,
    Filters,
    RequestFilter,
    Trouble,
    api_key_of,
    error_of,
)
from brokertwin.wording import counted

HOST = "127.0.0.1"
BROKERS_MAX = 100
DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}
"""Settings that are Kafka's no more: a test's first consumer is not kept waiting for others."""

TIMEOUT_S = 30.0
"""How long a verb may take; it takes milliseconds."""

POLL_S = 0.002
"""How often is looked whether a request has come in."""

Found = TypeVar("Found")


class KafkaBroker:
    """A Kafka broker for tests, usually as the fixture `kafka_broker` or in a `with`.

    Args:
        brokers: how many logical brokers; their ids are 1 and up.
        topics: the topics to begin with: names, or names with their number of partitions.
        config: broker settings by Kafka's own names; TLS has its files there
            (`ssl.keystore.location`).
        security_protocol: what the ports speak: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        users: passwords by user, for SASL.

    Raises:
        UserError: a setting that Kafka does not have, or a topic that it would refuse; TLS lacks a
            file, or is refused one.
    """

    def __init__(
        self,
        brokers: int = 1,
        topics: Mapping[str, int] | Iterable[str] = (),
        config: Mapping[str, object] | None = None,
        security_protocol: str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
    ) -> None:
        if not 1 <= brokers <= BROKERS_MAX:
            raise UserError(f"Invalid brokers={brokers}.", f"Pass 1 to {BROKERS_MAX}.")
        if isinstance(topics, str):
            raise UserError(f"Invalid topics={topics!r}.", "Pass a list of names, or a dict.")
        self._topics = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        texts = {**DEFAULTS, **{name: _text(value) for name, value in (config or {}).items()}}
        settings = _settings(texts)
        security, self._folder = securing.security_of(security_protocol, texts, users or {})
        self._has_ended = False
        self._engine = TroubledEngine("test", list(range(1, brokers + 1)), settings)
        limits = GatewayLimits.of(settings.given)
        self._gateway = Gateway(self._engine, Address(HOST, 0), None, limits, security)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> "KafkaBroker":
        """Listen, and create the first topics; a `with` does it."""
        if self._loop is not None:
            raise UserError("The broker is already running.")
        if self._has_ended:
            raise UserError("The broker is closed.", "Create a new one.")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kafka_broker", daemon=True
        )
        self._thread.start()
        try:
            self._run(self._gateway.start())
            self._run(writing.warm_up(self._engine))
            for name, partitions in self._topics.items():
                self.create_topic(name, partitions)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End: connections are closed and everything is forgotten."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        try:
            self._run(self._gateway.close())
            loop.call_soon_threadsafe(loop.stop)
            thread.join(TIMEOUT_S)
            loop.close()
        finally:
            self._loop = self._thread = None
            self._has_ended = True
            if self._folder is not None:
                self._folder.cleanup()

    def __enter__(self) -> "KafkaBroker":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> list[str]:
        """Where the brokers are reached, `host:port` of each."""
        return [f"{host}:{port}" for host, port in self._gateway.addresses.values()]

    @property
    def bootstrap(self) -> str:
        """The same as one string, as clients' `bootstrap.servers` take it."""
        return ",".join(self.bootstrap_servers)

    # What the broker holds

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic; gives back its id. Raises UserError where Kafka would refuse it."""
        configs = {key: _text(value) for key, value in (config or {}).items()}
        wanted = writing.TopicToCreate(name, partitions, replication_factor, configs)
        return self._run(writing.create_topic(self._engine, wanted))

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """Append records as a producer does, without one; gives back the first one's offset.

        A topic that is not there is created with one partition. Rules do not apply.

        Args:
            topic: its name.
            values: one for each record; text is written as UTF-8.
            key: of each of them.
            headers: of each of them.
            partition: where they go.
            timestamp_ms: of each of them; without it the broker's time.

        Raises:
            UserError: Kafka would refuse them.
        """
        timestamp_ms = self._engine.now() if timestamp_ms is None else timestamp_ms
        batch = writing.batch(values, key, headers, timestamp_ms)
        return self._run(writing.produce(self._engine, topic, partition, batch))

    def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """What lies in a topic, or in one partition of it, by partition and offset."""
        return self._run(reading.records(self._engine, topic, partition))

    def committed_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """What a group has committed, by topic and partition."""
        return self._call(lambda: reading.committed_offsets(self._engine, group))

    def requests(
        self,
        api: str | int | None = None,
        client: str | None = None,
        at_least: int = 0,
        timeout_s: float = WAIT_S,
    ) -> list[dict[str, Any]]:
        """What has come in, the oldest first, as documents in the shape of Kafka's request log.

        Beside the log's fields each has its `response` (None where there is none yet) and the
        `trouble` that it ran into. ApiVersions and SASL are answered before and not among them.

        Args:
            api: only those of one API.
            client: only those of one client id.
            at_least: wait until there are so many.
            timeout_s: how long to wait.

        Raises:
            TimeoutError: there are fewer.
            UserError: no such API.
        """
        key = None if api is None else api_key_of(api)

        def chosen() -> list[dict[str, Any]]:
            return [
                dict(document)
                for document in self._engine.seen
                if key in (None, document["requestHeader"]["requestApiKey"])
                and client in (None, document["requestHeader"].get("clientId"))
            ]

        deadline = time.monotonic() + timeout_s
        found = self._call(chosen)
        while len(found) < at_least:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{len(found)} of {at_least} requests within {timeout_s} s")
            time.sleep(POLL_S)
            found = self._call(chosen)
        return found

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads a partition. Raises UserError."""
        return self._call(lambda: reading.leader(self._engine, topic, partition))

    def coordinator(self, group: str) -> int:
        """The id of the broker that coordinates a group. Raises UserError."""
        topic, partition = self._place_of(group)
        return self.leader(topic, partition)

    # Trouble on the way

    def fail_next(
        self,
        api: str | int,
        error: str | int,
        times: int | None = 1,
        **only: Unpack[Filters],
    ) -> Trouble:
        """Answer the next requests with an error; the broker does not handle them.

        Where only a topic or partition is meant, the rest of such a request is handled. The error
        stands wherever the answer has an error code; of Fetch and Metadata in each partition or
        topic, except for what fetch sessions as a whole fail with.

        Args:
            api: by Kafka's name, or its key.
            error: by Kafka's name, or its code.
            times: how many requests; None: all until `Trouble.stop`.
            only: `topic` and `partition`: only requests that name it, and only it in their answers.
                `client` (a client id) and `broker`: only requests from or to it.

        Raises:
            UserError: no such API or error, or requests of the API are not about topics.
        """
        where = self._where(api, only)
        return self._add(Trouble(Effect.FAIL, where, times, error=error_of(error)))

    def lose_answer(
        self,
        api: str | int,
        times: int | None = 1,
        closes: bool = True,
        **only: Unpack[Filters],
    ) -> Trouble:
        """Handle the next requests, and let their clients never know.

        Args:
            api: as in `fail_next`, like `times` and `only`.
            times: how many requests.
            closes: the connection ends in place of the answer; otherwise the client waits until it
                has a time-out, and nothing that it sends on this connection is answered.
            only: which requests.

        Raises:
            UserError: as `fail_next`.
        """
        where = self._where(api, only)
        return self._add(Trouble(Effect.LOSE, where, times, closes=closes))

    def drop_connection(
        self,
        api: str | int,
        times: int | None = 1,
        **only: Unpack[Filters],
    ) -> Trouble:
        """Close the connections of the next requests; the broker does not handle them.

        Arguments and errors are those of `fail_next`.
        """
        where = self._where(api, only)
        return self._add(Trouble(Effect.DROP, where, times))

    def delay(
        self,
        api: str | int,
        milliseconds: int,
        times: int | None = 1,
        **only: Unpack[Filters],
    ) -> Trouble:
        """Handle the next requests at once and answer them later, in real milliseconds.

        The other arguments and errors are those of `fail_next`. It goes together with it: an error
        can come late.
        """
        where = self._where(api, only)
        return self._add(Trouble(Effect.DELAY, where, times, delay_ms=milliseconds))

    def calm(self) -> None:
        """End all trouble: rules are dropped, paused brokers go on."""
        self._call(self._engine.troubles.clear)
        self.resume()

    # Trouble in the cluster

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Give a partition to another broker, with its log and its producers.

        The leader epoch goes up; the old leader answers NOT_LEADER_OR_FOLLOWER and names the new.

        Args:
            topic: its name.
            partition: its number.
            to: the new leader; without it the next broker after the old one.

        Returns:
            The new leader's id.

        Raises:
            UserError: there is no such partition, or no other broker.
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
        """Give a group to another coordinator, with all that share its partition.

        The old one answers NOT_COORDINATOR. What `to`, the result and the errors are, `move_leader`
        says.
        """
        topic, partition = self._place_of(group)
        return self.move_leader(topic, partition, to)

    def expire_session(self, client: str | None = None, broker: int | None = None) -> list[int]:
        """Forget fetch sessions: the next incremental fetch gets FETCH_SESSION_ID_NOT_FOUND.

        Args:
            client: only those of this client id.
            broker: only those of this broker.

        Returns:
            The ids of the sessions that were there.
        """
        brokers = self._brokers(broker)
        return self._call(lambda: self._engine.expire_sessions(client, brokers))

    def expire_members(self, group: str, client: str | None = None) -> list[str]:
        """Take members of a group for gone, as after their session time-out: it rebalances.

        They are told with their next heartbeat (UNKNOWN_MEMBER_ID) and join anew.

        Args:
            group: a group of the classic protocol.
            client: only those of this client id.

        Returns:
            The ids of the members that were there.
        """
        return self._call(lambda: self._engine.expire_members(group, client))

    def advance_time(self, milliseconds: int) -> None:
        """Turn the brokers' clock ahead: what is due by then happens now.

        Long polls end, producers that were silent for `producer.id.expiration.ms` are forgotten,
        new records get the new time. Clients, connections and `delay` keep this machine's clock.

        Raises:
            UserError: time does not run back.
        """
        if milliseconds < 0:
            raise UserError(f"advance_time({milliseconds}): time cannot go back.")
        self._call(lambda: self._engine.advance(milliseconds))

    def pause(self, broker: int | None = None) -> None:
        """Let a broker, or all, answer nothing (but ApiVersions and SASL) until `resume`."""
        brokers = self._brokers(broker)
        self._call(lambda: self._engine.paused.update(brokers))

    def resume(self, broker: int | None = None) -> None:
        """Let a broker, or all, go on: first with what has come in meanwhile."""
        brokers = self._brokers(broker)
        self._call(lambda: self._engine.resume(brokers))

    def fail_log_dir(self, directory: str, broker: int = 1) -> None:
        """Let a log directory of a broker fail, until it is restarted: its replicas are offline.

        The broker answers for them with KAFKA_STORAGE_ERROR, and others lead where there are any.
        It halts with the first directory (or `metadata.log.dir`), or the last that is left.

        Args:
            directory: one of those in the setting `log.dirs`.
            broker: whose.

        Raises:
            UserError: there is no such directory, or it has failed already.
        """
        (named,) = self._brokers(broker)
        self._call(lambda: self._engine.fail_log_dir(named, directory))

    def restart(self, broker: int | None = None) -> None:
        """Let a broker, or all, start again: connections end, fetch sessions are forgotten.

        Topics, records, offsets and producers are kept, as on Kafka's disk, and so are ports. Log
        directories that have failed are there again. A broker that has halted with one starts when
        the controller has fenced it: `advance_time` by `broker.session.timeout.ms` is soonest.
        """
        brokers = self._brokers(broker)

        def start_again() -> None:
            self._engine.expire_sessions(None, brokers)
            self._gateway.disconnect(brokers)
            for each in brokers:
                self._engine.repair(each)

        self._call(start_again)

    # How it is done

    def _where(self, api: str | int, only: Filters) -> RequestFilter:
        key = api_key_of(api)
        where = RequestFilter(key, **only)
        self._brokers(where.broker)
        if where.topic is not None and not failures.names_topics(key):
            raise UserError(f"{KAFKA_APIS[key].name} requests have no topics.")
        if where.partition is not None and where.topic is None:
            raise UserError(
                f"partition={where.partition} requires a topic.", "Pass topic= as well."
            )
        return where

    def _add(self, trouble: Trouble) -> Trouble:
        def add() -> None:
            self._engine.troubles[:] = [t for t in self._engine.troubles if not t.is_over]
            self._engine.troubles.append(trouble)

        self._call(add)
        return trouble

    def _place_of(self, group: str) -> tuple[str, int]:
        """The internal topic and the partition that a group belongs to."""
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

    def _call(self, work: Callable[[], Found]) -> Found:
        """Do something in the broker's thread."""

        async def do() -> Found:
            return work()

        return self._run(do())

    def _run(self, work: Coroutine[Any, Any, Found]) -> Found:
        if self._loop is None:
            work.close()
            raise UserError("The broker is not running.", "Use it in a `with`, or call start().")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)


def _text(value: object) -> str:
    """A setting as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(config: Mapping[str, str]) -> Any:
    try:
        return parse(config)[0]
    except (UnknownSettingError, InvalidConfigError) as error:
        raise UserError(f"{error}.") from None
