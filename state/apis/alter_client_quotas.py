"""AlterClientQuotas (key 49, versions 0 to 1): sets and removes quotas of entities.

Source: `ClientQuotaControlManager`, `ControllerApis.handleAlterClientQuotas` in Kafka; KIP-546.
Handled by the controller. Without ALTER_CONFIGS on the cluster every entry is 31. INVALID_REQUEST
(42) with a message is the answer for an entity that is empty, of an unknown type, or an ip with
something else, for an unknown key, a key that comes twice, a value that is not above 0, has a
fraction where the quota is a whole number, or is too large for it.
"""

import ipaddress

from brokerstream.state.access.authorizer import Operation
from brokerstream.state.apis.describe_client_quotas import QuotaEntity
from brokerstream.state.cluster import client_quotas
from brokerstream.state.cluster.client_quotas import CLIENT_ID, CONSUMER_BYTE_RATE, IP, USER, Entity
from brokerstream.state.cluster.machines import Controller
from brokerstream.state.core.api import Api
from brokerstream.state.core.decision import Decision, Request
from brokerstream.state.core.errors import Error
from brokerstream.state.core.records import ClientQuotaAltered, Record
from brokerstream.state.core.schema import Body, Float64, Int16, Int32

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
FRACTION = 1e-6

USER_AND_CLIENT_KEYS: dict[str, int | None] = {
    "producer_byte_rate": LONG_MAX,
    CONSUMER_BYTE_RATE: LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""Quotas of users and clients: the largest value of a whole number, None where it has fractions."""

IP_KEYS: dict[str, int | None] = {"connection_creation_rate": INT_MAX}


class QuotaOperation(Body):
    """A quota that is set, or removed."""

    key: str
    value: Float64 = 0.0
    remove: bool = False


class QuotaAlteration(Body):
    """What is to change of an entity."""

    entity: list[QuotaEntity]
    ops: list[QuotaOperation]


class AlterClientQuotasRequest(Body):
    """Changes by entity; `validate_only` changes nothing."""

    entries: list[QuotaAlteration]
    validate_only: bool = False


class AlteredQuotas(Body, kw_only=True):
    """What became of an entity."""

    error_code: Int16 = 0
    error_message: str | None = None
    entity: list[QuotaEntity]


class AlterClientQuotasResponse(Body, kw_only=True):
    """An answer for each entity."""

    throttle_time_ms: Int32 = 0
    entries: list[AlteredQuotas]


def handle(controller: Controller, request: Request) -> Decision:
    """Alters what may be altered; an entity is altered as a whole or not at all."""
    body: AlterClientQuotasRequest = request.body
    is_allowed = controller.allows_cluster(request, Operation.ALTER_CONFIGS)
    records: list[Record] = []
    answers = []
    for entry in body.entries:
        if not is_allowed:
            message = "Cluster authorization failed."
            answers.append(_refused(entry, Error.CLUSTER_AUTHORIZATION_FAILED, message))
            continue
        entity: Entity = {part.entity_type: part.entity_name for part in entry.entity}
        problem = _problem_of(entity, entry.ops)
        if problem:
            answers.append(_refused(entry, Error.INVALID_REQUEST, problem))
            continue
        answers.append(AlteredQuotas(entity=entry.entity))
        records.extend(_records(controller, entity, entry.ops))
    response = AlterClientQuotasResponse(entries=answers)
    return Decision(records=[] if body.validate_only else records, response=response)


def _refused(entry: QuotaAlteration, error: Error, message: str) -> AlteredQuotas:
    return AlteredQuotas(error_code=error, error_message=message, entity=entry.entity)


def _problem_of(entity: Entity, ops: list[QuotaOperation]) -> str:
    """Why an entity is not altered, "" where it is."""
    unknown = entity.keys() - {USER, CLIENT_ID, IP}
    if not entity:
        return "Invalid empty client quota entity"
    if unknown:
        return f"Unhandled client quota entity type: {min(unknown)}"
    if IP in entity and len(entity) > 1:
        return (
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"  # Kafka's words, with their missing space
        )
    if entity.get(IP) is not None and not _is_address(entity[IP] or ""):
        return f"{entity[IP]} is not a valid IP or resolvable host."
    keys = [op.key for op in ops]
    repeated = {key for key in keys if keys.count(key) > 1}
    if repeated:
        return f"Duplicate quota key {min(repeated)}"
    known = IP_KEYS if IP in entity else USER_AND_CLIENT_KEYS
    return next((found for op in ops if (found := _problem_of_value(op, known))), "")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == "localhost"
    return True


def _problem_of_value(op: QuotaOperation, known: dict[str, int | None]) -> str:
    if op.remove:
        return ""
    if op.key not in known:
        return f"Invalid configuration key {op.key}"
    value, largest = float(op.value), known[op.key]
    if value <= 0:
        return f"Quota {op.key} must be greater than 0"
    if largest is None:
        return ""
    if value > largest:
        kind = "a LONG" if largest == LONG_MAX else "an INT"
        return f"Proposed value for {op.key} is too large for {kind}."
    return f"{op.key} cannot be a fractional value." if value % 1 > FRACTION else ""


def _records(controller: Controller, entity: Entity, ops: list[QuotaOperation]) -> list[Record]:
    """Only what changes is written."""
    present = client_quotas.of_entity(controller.tables.metadata, controller.id, entity)
    return [
        ClientQuotaAltered(entity, op.key, None if op.remove else op.value)
        for op in ops
        if present.get(op.key) != (None if op.remove else op.value)
    ]


API = Api(49, "ALTER_CLIENT_QUOTAS", (0, 1), AlterClientQuotasRequest, handle, on_controller=True)
