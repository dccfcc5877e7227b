"""Clients that have asked a broker which metrics are wanted of them (KIP-714).

    sessions   <broker>/client-instance/<client instance id>   Instance
               <broker>/client-instances                       Counts

An instance is one client in one of its lives, known by an id that the first broker asked has drawn.
It is matched with the subscriptions once, and again at its first request after any of them has
changed; what it was when it first asked (software, address, port) stays so. It is forgotten

- with the connection that has had it matched last, of several instances the one matched last;
- after three push intervals without a request, a minute at least: when it asks again, or at a check
  (`state/cell/expiry.py`; Kafka has a timer for each);
- for a new one where a broker has `INSTANCES_MAX`: who was silent for longest goes.

The id of what it is subscribed to is a CRC-32C over the metrics and the interval, mixed with its
own id. Metrics come in the order of a Java `HashSet`; those of several subscriptions whose hashes
meet in one bucket come by the subscriptions' names, not by Kafka's concurrent map. Nothing of this
is durable. Source: `ClientMetricsManager`, `ClientMetricsInstance` in Kafka.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from brokertwin.state.cluster import given_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.configs import client_metrics
from brokertwin.state.core.check import Violations
from brokertwin.state.core.crc32c import crc32c
from brokertwin.state.core.decision import Request
from brokertwin.state.core.java_hashes import JavaMap, hash_order, java_hash, uuid_hash
from brokertwin.state.core.records import Record
from brokertwin.state.core.schema import Body, Int32, Uuid
from brokertwin.state.core.tables import Table, escape, unescape

INSTANCES_MAX = 16_384
EXPIRY_MS_LEAST = 60_000
ALL_METRICS = "*"
UNKNOWN = "unknown"
"""The software of a client that has not said it in ApiVersions."""

_DERIVED = "client-instances"


class OfClient(Body):
    """What the edge knows of a client beside its address; the port is null where it does not."""

    client_software_name: str = UNKNOWN
    client_software_version: str = UNKNOWN
    client_source_port: Int32 | None = None


class Instance(msgspec.Struct, array_like=True):
    """A client.

    Attributes:
        attributes: what it is matched by, `client_metrics.MATCHED`, as far as known.
        metrics: the prefixes of metrics that are wanted of it.
        as_of: how many changes of subscriptions it was matched after.
        connections: those that end it, each with no other.
        used: which request of all the last one was; `used_at` when, in ms since 1970.
        last_get, last_push: when one was accepted, 0 before the first.
        last_error: what the last request was refused with, as far as Kafka notes it.
    """

    attributes: dict[str, str]
    subscription_id: int
    metrics: list[str]
    push_interval_ms: int
    as_of: int
    connections: list[str]
    used: int = 0
    used_at: int = 0
    last_get: int = 0
    last_push: int = 0
    is_terminating: bool = False
    last_error: int = 0

    def takes_get(self, now: int) -> bool:
        """Whether an interval has passed since anything was accepted; notes that this is."""
        is_due = now - max(self.last_get, self.last_push) >= self.push_interval_ms
        if is_due:
            self.last_get = now
        return is_due

    def takes_push(self, now: int) -> bool:
        """The same of a push: the first one after a get may come at any time."""
        is_due = self.last_get > self.last_push or now - self.last_push >= self.push_interval_ms
        if is_due:
            self.last_push = now
        return is_due


class Counts(msgspec.Struct, array_like=True):
    """Of a broker: changes of subscriptions since it knows instances, and their requests."""

    changes: int = 0
    requests: int = 0


class _Known(NamedTuple):
    """Instance ids, who was silent for longest first; and whom a connection ends."""

    order: dict[str, None]
    connections: dict[str, str]


def take_up(broker: Broker, request: Request, instance_id: Uuid) -> Instance:
    """The instance that asks, to be changed; matched anew where that is due."""
    table, known = broker.tables.client_instances, _known(broker)
    counts = table.ensure(_counts_key(broker.id), Counts)
    counts.requests += 1
    found = table.get(_key(broker, instance_id), Instance)
    if found is not None and _is_over(found, broker.now):
        _drop(broker, known, instance_id)
        found = None
    if found is None or found.as_of < counts.changes:
        attributes = _attributes(request, instance_id) if found is None else found.attributes
        connections = [] if found is None else found.connections
        made = _matched(broker, instance_id, attributes, connections, counts.changes)
        table.put(_key(broker, instance_id), made)
        _connect(broker, known, instance_id, request.connection)
    instance = table.change(_key(broker, instance_id), Instance)
    instance.used, instance.used_at = counts.requests, broker.now
    known.order.pop(instance_id, None)
    known.order[instance_id] = None
    if len(known.order) > INSTANCES_MAX:
        _drop(broker, known, next(iter(known.order)))
    return instance


def forget_connection(broker: Broker, connection: str) -> None:
    """A connection has ended."""
    if _counts_key(broker.id) in broker.tables.client_instances:
        known = _known(broker)
        instance_id = known.connections.get(connection)
        if instance_id is not None:
            _drop(broker, known, instance_id)


def expired(broker: Broker) -> Iterable[Record]:
    """Forgets who was silent for too long; no record says so."""
    over = [each for each, instance in _instances(broker) if _is_over(instance, broker.now)]
    for instance_id in over:
        _drop(broker, _known(broker), instance_id)
    return ()


def heed_change(sessions: Table, machine: int) -> None:
    """A subscription has changed: those that the broker knows are matched again when they ask."""
    key = _counts_key(machine)
    if key in sessions:
        sessions.change(key, Counts).changes += 1


def check(sessions: Table, broker: int) -> Violations:
    """Instances are counted, no more than there may be, and a connection ends one of them."""
    counts = sessions.get(_counts_key(broker), Counts) or Counts()
    ended: set[str] = set()
    prefix = f"{broker}/client-instance/"
    for number, (key, instance) in enumerate(sessions.items(prefix, Instance), 1):
        if instance.used > counts.requests or instance.as_of > counts.changes:
            yield f"{key} is ahead of {counts}"
        if number > INSTANCES_MAX:
            yield f"{key} is one more than {INSTANCES_MAX}"
        if not ended.isdisjoint(instance.connections):
            yield f"{key} ends with {instance.connections}, and so does another"
        ended.update(instance.connections)


def _key(broker: Broker, instance_id: Uuid) -> str:
    return f"{broker.id}/client-instance/{escape(instance_id)}"


def _counts_key(machine: int) -> str:
    return f"{machine}/client-instances"


def _known(broker: Broker) -> _Known:
    kept: dict[int, _Known] = broker.tables.client_instances.derived.setdefault(_DERIVED, {})
    if broker.id not in kept:
        found = sorted(_instances(broker), key=lambda each: each[1].used)
        ended = {name: each for each, instance in found for name in instance.connections}
        kept[broker.id] = _Known(dict.fromkeys(each for each, _ in found), ended)
    return kept[broker.id]


def _instances(broker: Broker) -> Iterator[tuple[str, Instance]]:
    prefix = f"{broker.id}/client-instance/"
    for key, instance in broker.tables.client_instances.items(prefix, Instance):
        yield unescape(key.removeprefix(prefix)), instance


def _is_over(instance: Instance, now: int) -> bool:
    lives_ms = max(EXPIRY_MS_LEAST, 3 * instance.push_interval_ms)
    return now - instance.used_at >= lives_ms


def _drop(broker: Broker, known: _Known, instance_id: Uuid) -> None:
    instance = broker.tables.client_instances.get(_key(broker, instance_id), Instance)
    assert instance is not None, instance_id
    for connection in instance.connections:
        del known.connections[connection]
    del known.order[instance_id]
    broker.tables.client_instances.drop(_key(broker, instance_id))


def _connect(broker: Broker, known: _Known, instance_id: Uuid, connection: str) -> None:
    """From here on a connection ends this instance, and no other."""
    table, before = broker.tables.client_instances, known.connections.get(connection)
    if before != instance_id:
        if before is not None:
            table.change(_key(broker, before), Instance).connections.remove(connection)
        table.change(_key(broker, instance_id), Instance).connections.append(connection)
        known.connections[connection] = instance_id


def _attributes(request: Request, instance_id: Uuid) -> dict[str, str]:
    body: OfClient = request.body
    port = body.client_source_port
    known = {
        "client_instance_id": instance_id,
        "client_id": request.header.client_id,
        "client_software_name": body.client_software_name,
        "client_software_version": body.client_software_version,
        "client_source_address": request.host or None,
        "client_source_port": None if port is None else str(port),
    }
    return {name: text for name, text in known.items() if text is not None}


def _matched(
    broker: Broker,
    instance_id: Uuid,
    attributes: dict[str, str],
    connections: list[str],
    as_of: int,
) -> Instance:
    """An instance as the subscriptions of now have it, which has asked for nothing yet."""
    kind, interval_ms = given_configs.CLIENT_METRICS, client_metrics.DEFAULT_MS
    wanted: JavaMap[str, None] = JavaMap(java_hash)
    given = given_configs.everything(broker.tables.metadata, broker.id, kind)
    for name in hash_order(sorted(given), len(given)):
        each = client_metrics.subscription(given[name])
        if each.matches(attributes):
            interval_ms = min(interval_ms, each.interval_ms)
            for metric in JavaMap.holding(java_hash, dict.fromkeys(each.metrics)):
                wanted[metric] = None
    metrics = [ALL_METRICS] if ALL_METRICS in wanted else list(wanted)
    told = f"[{', '.join(metrics)}]{interval_ms}".encode()
    mixed = crc32c(told) ^ uuid_hash(instance_id)
    subscription_id = mixed - (1 << 32) if mixed >= 1 << 31 else mixed
    return Instance(attributes, subscription_id, metrics, interval_ms, as_of, connections)
