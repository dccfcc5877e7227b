"""Client quotas: how much users and clients may ask of a broker (KIP-13, KIP-55, KIP-546).

Source: `ClientQuotaControlManager`, `ClientQuotasImage`, `DefaultQuotaCallback` in Kafka. An entity
is a user, a client id, both, or the host of a connection; a name None is the default of its type.
Items of the table `metadata`:

    <machine>/quotas           AnyQuotas: there only while there is an entity
    <machine>/quota/<entity>   EntityQuotas

Which quota holds for a client, the first that there is:

    user and client id, user and default client, user,
    default user and client id, default user and default client, default user,
    client id, default client

All values are kept; brokers act on `producer_byte_rate` and `consumer_byte_rate`
(`quota_rates.py`), the controller on `controller_mutation_rate` (`mutation_quota.py`), a gateway on
`connection_creation_rate` and `request_percentage`.
"""

import ipaddress
from functools import lru_cache
from typing import NamedTuple

import msgspec

from brokertwin.state.cluster.image import machine_prefix
from brokertwin.state.core.records import ClientQuotaAltered
from brokertwin.state.core.schema import Float64
from brokertwin.state.core.tables import Table, escape

USER, CLIENT_ID, IP = "user", "client-id", "ip"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
"""Bytes a second that fetches of a client may bring."""

CONNECTION_CREATION_RATE = "connection_creation_rate"
"""Connections a second that an address may begin."""

PRODUCER_BYTE_RATE = "producer_byte_rate"
"""Bytes a second that a client may write, its requests as a whole."""

REQUEST_PERCENTAGE = "request_percentage"
"""Percent of a second that the requests of a client may take of a broker's threads."""

Entity = dict[str, str | None]
"""Type of an entity to its name, None for the default."""

DEFAULT = None
_LOOPBACK = ipaddress.ip_address("127.0.0.1")
_NOT_LOOKED_AT = ""


class AnyQuotas(msgspec.Struct, array_like=True):
    """How many entities have a quota."""

    entities: int


class EntityQuotas(msgspec.Struct):
    """The quotas of an entity by their keys."""

    entity: Entity
    values: dict[str, Float64]


class QuotaLimit(NamedTuple):
    """A quota that holds for a client, and with whom the client shares it."""

    value: float
    shared_by: str


def entity_key(entity: Entity) -> str:
    """An entity as a part of a key: its types sorted, names escaped."""
    parts = []
    for kind, name in sorted(entity.items()):
        parts.append(kind if name is None else f"{kind}={escape(name)}")
    return "/".join(parts)


def _key(machine: int, entity: Entity) -> str:
    return f"{machine_prefix(machine)}/quota/{entity_key(entity)}"


@lru_cache(1024)
def _any_key(machine: int) -> str:
    return f"{machine_prefix(machine)}/quotas"


def of_entity(table: Table, machine: int, entity: Entity) -> dict[str, Float64]:
    """The quotas of exactly this entity."""
    found = table.get(_key(machine, entity), EntityQuotas)
    return found.values if found is not None else {}


def all_quotas(table: Table, machine: int) -> list[EntityQuotas]:
    """Every entity that has a quota."""
    prefix = f"{machine_prefix(machine)}/quota/"
    return [found for _, found in table.items(prefix, EntityQuotas)]


def apply_altered(table: Table, machine: int, record: ClientQuotaAltered) -> None:
    """Sets a quota of an entity, or removes it; an entity without quotas goes."""
    key = _key(machine, record.entity)
    if key not in table:
        table.put(key, EntityQuotas(record.entity, {}))
        _count(table, machine, 1)
    values = table.change(key, EntityQuotas).values
    if record.value is None:
        values.pop(record.key, None)
    else:
        values[record.key] = record.value
    if not values:
        table.drop(key)
        _count(table, machine, -1)


def _count(table: Table, machine: int, change: int) -> None:
    key = _any_key(machine)
    if key not in table:
        table.put(key, AnyQuotas(0))
    counted = table.change(key, AnyQuotas)
    counted.entities += change
    if not counted.entities:
        table.drop(key)


def are_any(table: Table, machine: int) -> bool:
    """Whether any entity has a quota."""
    return _any_key(machine) in table


def limit(table: Table, machine: int, user: str, client_id: str, key: str) -> QuotaLimit | None:
    """The quota that holds for a client of a user, if there is one."""
    if not are_any(table, machine):
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
        value = of_entity(table, machine, entity).get(key)
        if value is not None:
            own: Entity = {USER: user, CLIENT_ID: client_id}
            return QuotaLimit(float(value), entity_key({kind: own[kind] for kind in entity}))
    return None


def connection_rate(table: Table, machine: int, host: str) -> float | None:
    """How many connections a second a broker takes from an address, if there is a quota.

    An IPv6 address may be written short, or with all its groups as Java does.
    """
    if not are_any(table, machine):
        return None
    for name in (*_names_of(host), DEFAULT):
        value = of_entity(table, machine, {IP: name}).get(CONNECTION_CREATION_RATE)
        if value is not None:
            return float(value)
    return None


def _names_of(host: str) -> list[str]:
    """What an address may be called; IPv4 within IPv6 is IPv4."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # the connection has ended already, and nobody knows from where it came
        return []
    if isinstance(address, ipaddress.IPv4Address):
        return [str(address), "localhost"] if address == _LOOPBACK else [str(address)]
    if address.ipv4_mapped is not None:
        return _names_of(str(address.ipv4_mapped))
    groups = (f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return [str(address), ":".join(groups)]
