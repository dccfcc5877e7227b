"""AlterClientQuotas (key 49, versions 0 to 1): set and remove quotas.

Source: `ClientQuotaControlManager`, `ControllerApis.handleAlterClientQuotas` in Kafka; KIP-546.
Runs on the controller. The errors of an entry:

    no ALTER_CONFIGS on the cluster                        31 CLUSTER_AUTHORIZATION_FAILED
    an empty entity, an unknown type, or an ip with
    another type; the name ""; an unknown key              42 INVALID_REQUEST with a message
    a value of at most 0, a fraction of an integer quota,
    or a value above the quota's maximum                   42 INVALID_REQUEST with a message
    the entity or one of its keys is repeated              42 INVALID_REQUEST with a message

A repeated entity is reported once, but its first entry is still altered. If an entity repeats a
type, the last name applies. Entities, their types and keys are in the order of Java's `HashMap`.
"""

import ipaddress
from collections.abc import Iterable
from typing import TypeVar

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Float64
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from brokertwin.protocol.generated.shared import EntityData
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import client_quotas
from brokertwin.state.cluster.client_quotas import CLIENT_ID, CONSUMER_BYTE_RATE, IP, USER, Entity
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.java_hashes import JavaMap, hash_order, java_hash
from brokertwin.state.core.records import ClientQuotaAltered, Record

V = TypeVar("V")
Values = dict[str, Float64 | None]
"""New quota values by key; None removes the quota."""

_Parts = tuple[tuple[str, str | None], ...]

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
FRACTION = 1e-6

USER_AND_CLIENT_KEYS: dict[str, int | None] = {
    "producer_byte_rate": LONG_MAX,
    CONSUMER_BYTE_RATE: LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""Quotas of users and clients: the maximum, or None for fractions."""

IP_KEYS: dict[str, int | None] = {"connection_creation_rate": INT_MAX}


def handle(controller: Controller, request: Request) -> Decision:
    """Alter the valid entries; each entity completely or not at all."""
    body: AlterClientQuotasRequest = request.body
    if not controller.allows_cluster(request, Operation.ALTER_CONFIGS):
        denied = Error.CLUSTER_AUTHORIZATION_FAILED
        message = "Cluster authorization failed."
        results = [_refused(entry.entity, denied, message) for entry in body.entries]
        return Decision(response=AlterClientQuotasResponse(entries=results))
    records: list[Record] = []
    by_entity: JavaMap[_Parts, AlterClientQuotasResponseEntryData] = JavaMap(
        client_quotas.entity_hash
    )
    for entry in body.entries:
        entity = _java_map((part.entity_type, part.entity_name) for part in entry.entity)
        values = _java_map((op.key, None if op.remove else op.value) for op in entry.ops)
        place = tuple(sorted(entity.items(), key=lambda part: part[0]))
        if place in by_entity or len(values) < len(entry.ops):
            problem = f"Ignoring duplicate entity {_shown(entity)}"
        else:
            problem = _problem_of(entity) or _problem_of_values(entity, values)
            if not problem:
                records.extend(_records(controller, entity, values))
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        by_entity[place] = (
            _refused(parts, Error.INVALID_REQUEST, problem)
            if problem
            else AlterClientQuotasResponseEntryData(entity=parts)
        )
    response = AlterClientQuotasResponse(entries=[by_entity[place] for place in by_entity])
    return Decision(records=[] if body.validate_only else records, response=response)


def _java_map(pairs: Iterable[tuple[str, V]]) -> dict[str, V]:
    """Return the last value of each name in the order of a sized `HashMap`."""
    given = list(pairs)
    java_map: JavaMap[str, V] = JavaMap(java_hash, len(given))
    for name, value in given:
        java_map[name] = value
    return {name: java_map[name] for name in java_map}


def _shown(entity: Entity) -> str:
    """Format an entity like Kafka's error messages."""
    parts = (f"{kind}={'null' if name is None else name}" for kind, name in entity.items())
    return f"ClientQuotaEntity(entries={{{', '.join(parts)}}})"


def _refused(
    entity: list[EntityData], error: Error, message: str
) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=error, error_message=message, entity=entity
    )


def _problem_of(entity: Entity) -> str:
    """Return the error message for an invalid entity, or ""."""
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP in entity and len(entity) > 1:
        return (
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"  # Kafka's message lacks the space, too
        )
    if entity.get(IP) is not None and not _is_address(entity[IP] or ""):
        return f"{entity[IP]} is not a valid IP or resolvable host."
    return ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == "localhost"
    return True


def _problem_of_values(entity: Entity, values: Values) -> str:
    """Return the message for the first invalid value, or ""."""
    keys = IP_KEYS if IP in entity else USER_AND_CLIENT_KEYS
    pairs = ((key, value) for key, value in values.items() if value is not None)
    return next((problem for each in pairs if (problem := _problem_of_value(*each, keys))), "")


def _problem_of_value(key: str, number: Float64, keys: dict[str, int | None]) -> str:
    if key not in keys:
        return f"Invalid configuration key {key}"
    value, largest = float(number), keys[key]
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if largest is None:
        return ""
    if value > largest:
        kind = "a LONG" if largest == LONG_MAX else "an INT"
        return f"Proposed value for {key} is too large for {kind}."
    return f"{key} cannot be a fractional value." if value % 1 > FRACTION else ""


def _records(controller: Controller, entity: Entity, values: Values) -> list[Record]:
    """Return records for changed values only, in the order of `ClientQuotaDelta.changes`."""
    present = client_quotas.of_entity(controller, entity)
    changed = [key for key, value in values.items() if present.get(key) != value]
    return [
        ClientQuotaAltered(entity, key, values[key]) for key in hash_order(changed, len(changed))
    ]


API = Api(kafka_apis.ALTER_CLIENT_QUOTAS, handle)
