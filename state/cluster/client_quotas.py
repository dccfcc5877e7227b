"""Client quotas (KIP-13, KIP-55, KIP-546).

Source: `ClientQuotaControlManager`, `ClientQuotasImage`, `DefaultQuotaCallback` in Kafka. An entity
is a user, a client id, both, or the host of a connection; a name None is the default of its type.
Items of the table `metadata`:

    <machine>/quotas           AnyQuotas: exists only while there is an entity
    <machine>/quota/<entity>   EntityQuotas

A client has the first existing quota of

    user and client id, user and default client, user,
    default user and client id, default user and default client, default user,
    client id, default client

All values are stored. Brokers apply `producer_byte_rate` and `consumer_byte_rate`
(`quota_rates.py`), the controller `controller_mutation_rate` (`mutation_quota.py`), a gateway
`connection_creation_rate` and `request_percentage`.
"""

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from brokertwin.protocol.bodies import Float64
from brokertwin.state.core.applying import applies
from brokertwin.state.core.java_hashes import java_hash
from brokertwin.state.core.records import ClientQuotaAltered
from brokertwin.state.core.tables import MachineTables, escape

USER, CLIENT_ID, IP = "user", "client-id", "ip"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
"""Bytes per second that a client may fetch."""

CONNECTION_CREATION_RATE = "connection_creation_rate"
"""Connections per second from an address."""

PRODUCER_BYTE_RATE = "producer_byte_rate"
"""Bytes per second that a client may produce, counting whole requests."""

REQUEST_PERCENTAGE = "request_percentage"
"""Percentage of broker thread time for a client's requests."""

Entity = dict[str, str | None]
"""Types and names of an entity; None is the default."""

DEFAULT = None
_LOOPBACK = ipaddress.ip_address("127.0.0.1")
_NOT_LOOKED_AT = ""


class AnyQuotas(msgspec.Struct, array_like=True):
    """Number of entities with a quota, and of all that were made while there were any."""

    entities: int
    made: int = 0


class EntityQuotas(msgspec.Struct):
    """Quotas of an entity by key; `number` grows with each new entity."""

    entity: Entity
    values: dict[str, Float64]
    number: int = 0


class QuotaLimit(NamedTuple):
    """A client's quota, and the entity that shares it."""

    value: float
    shared_by: str


def entity_key(entity: Entity) -> str:
    """Part of a key for an entity: sorted types, escaped names."""
    parts = []
    for kind, name in sorted(entity.items()):
        parts.append(kind if name is None else f"{kind}={escape(name)}")
    return "/".join(parts)


def _key(at: MachineTables, entity: Entity) -> str:
    return f"{at.prefix}/quota/{entity_key(entity)}"


def _any_key(at: MachineTables) -> str:
    return f"{at.prefix}/quotas"


def of_entity(at: MachineTables, entity: Entity) -> dict[str, Float64]:
    quotas = at.tables.metadata.get(_key(at, entity), EntityQuotas)
    return quotas.values if quotas is not None else {}


def entity_hash(parts: Iterable[tuple[str, str | None]]) -> int:
    """`ClientQuotaEntity.hashCode` of types and names."""
    return 31 + sum(java_hash(kind) ^ java_hash(name or "") for kind, name in parts)


def all_quotas(at: MachineTables) -> list[EntityQuotas]:
    """All entities with a quota, in the order in which they were made."""
    prefix = f"{at.prefix}/quota/"
    quotas = [each for _, each in at.tables.metadata.items(prefix, EntityQuotas)]
    return sorted(quotas, key=lambda each: each.number)


@applies(ClientQuotaAltered)
def apply_altered(at: MachineTables, record: ClientQuotaAltered) -> None:
    """Set or remove a quota; an entity without quotas is dropped."""
    key = _key(at, record.entity)
    if key not in at.tables.metadata:
        number = _count(at, 1)
        at.tables.metadata.put(key, EntityQuotas(record.entity, {}, number))
    values = at.tables.metadata.change(key, EntityQuotas).values
    if record.value is None:
        values.pop(record.key, None)
    else:
        values[record.key] = record.value
    if not values:
        at.tables.metadata.drop(key)
        _count(at, -1)


def _count(at: MachineTables, change: int) -> int:
    """Change the number of entities; return that of all which were made."""
    key = _any_key(at)
    if key not in at.tables.metadata:
        at.tables.metadata.put(key, AnyQuotas(0))
    counted = at.tables.metadata.change(key, AnyQuotas)
    counted.entities += change
    counted.made += max(change, 0)
    if not counted.entities:
        at.tables.metadata.drop(key)
    return counted.made


def are_any(at: MachineTables) -> bool:
    return _any_key(at) in at.tables.metadata


def limit(at: MachineTables, user: str, client_id: str, key: str) -> QuotaLimit | None:
    if not are_any(at):
        return None
    for named_user, named_client in (
        (user, client_id),
        (user, DEFAULT),
        (user, _NOT_LOOKED_AT),
        (DEFAULT, client_id),
        (DEFAULT, DEFAULT),
        (DEFAULT, _NOT_LOOKED_AT),
        (_NOT_LOOKED_AT, client_id),
        (_NOT_LOOKED_AT, DEFAULT),
    ):
        named: Entity = {USER: named_user, CLIENT_ID: named_client}
        entity = {kind: name for kind, name in named.items() if name != _NOT_LOOKED_AT}
        value = of_entity(at, entity).get(key)
        if value is not None:
            own: Entity = {USER: user, CLIENT_ID: client_id}
            return QuotaLimit(float(value), entity_key({kind: own[kind] for kind in entity}))
    return None


def connection_rate(at: MachineTables, host: str) -> float | None:
    """Connections per second that a broker accepts from an address, if limited.

    An IPv6 address may be compressed, or have all its groups, as Java writes it.
    """
    if not are_any(at):
        return None
    for name in (*_names_of(host), DEFAULT):
        value = of_entity(at, {IP: name}).get(CONNECTION_CREATION_RATE)
        if value is not None:
            return float(value)
    return None


def _names_of(host: str) -> list[str]:
    """Names of an address; IPv4 within IPv6 is IPv4."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # the connection has ended, so its address is unknown
        return []
    if isinstance(address, ipaddress.IPv4Address):
        return [str(address), "localhost"] if address == _LOOPBACK else [str(address)]
    if address.ipv4_mapped is not None:
        return _names_of(str(address.ipv4_mapped))
    groups = (f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return [str(address), ":".join(groups)]
