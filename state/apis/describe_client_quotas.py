"""DescribeClientQuotas (key 48, versions 0 to 1): list matching quotas.

Source: `ClientQuotasImage.describe`, `KafkaApis.handleDescribeClientQuotasRequest` in Kafka;
KIP-546. Entities and their keys are in the order of Java's `HashMap`.

    no DESCRIBE_CONFIGS on the cluster     31 CLUSTER_AUTHORIZATION_FAILED
    an invalid filter                      42 INVALID_REQUEST with a message
    an unknown entity type                 35 UNSUPPORTED_VERSION with a message
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntryData,
    ValueData,
)
from brokertwin.protocol.generated.shared import EntityData
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import client_quotas
from brokertwin.state.cluster.client_quotas import CLIENT_ID, IP, USER, Entity, EntityQuotas
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.java_hashes import JavaMap, java_hash

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""Match types: an entity by name, the default entity, any entity."""

_MISMATCHES = {
    EXACT: "MATCH_TYPE_EXACT, but set match string to null",
    DEFAULT: "MATCH_TYPE_DEFAULT, but also specified a match string",
    SPECIFIED: "MATCH_TYPE_SPECIFIED, but also specified a match string",
}


class _BadFilter(Exception):
    """An invalid filter, with its error and message."""

    def __init__(self, error: Error, message: str) -> None:
        super().__init__(message)
        self.error = error


def handle(broker: Broker, request: Request) -> Decision:
    """List the matching quotas without changing any state."""
    body: DescribeClientQuotasRequest = request.body
    if not broker.allows_cluster(request, Operation.DESCRIBE_CONFIGS):
        error = Error.CLUSTER_AUTHORIZATION_FAILED
        response = DescribeClientQuotasResponse(error_code=error, error_message=None)
        return Decision(response=response)
    try:
        components = _checked(body.components)
    except _BadFilter as bad:
        response = DescribeClientQuotasResponse(error_code=bad.error, error_message=str(bad))
        return Decision(response=response)
    entries = [
        DescribeClientQuotasResponseEntryData(
            entity=[
                EntityData(entity_type=kind, entity_name=name)
                for kind, name in quota.entity.items()
            ],
            values=[
                ValueData(key=key, value=quota.values[key])
                for key in JavaMap.growing(java_hash, quota.values)
            ],
        )
        for quota in _in_order(client_quotas.all_quotas(broker))
        if _matches(quota.entity, components, body.strict)
    ]
    return Decision(response=DescribeClientQuotasResponse(entries=entries))


def _in_order(quotas: list[EntityQuotas]) -> list[EntityQuotas]:
    """Return entities in the order of the `HashMap` of `ClientQuotasDelta.apply`.

    After entities were removed, Kafka's map may be larger until the next change.
    """
    by_parts = {tuple(each.entity.items()): each for each in quotas}
    order = JavaMap.growing(client_quotas.entity_hash, by_parts)
    return [by_parts[parts] for parts in order]


def _checked(components: list[ComponentData]) -> dict[str, ComponentData]:
    """Return the components by type. Raises _BadFilter."""
    wanted: dict[str, ComponentData] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _BadFilter(Error.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            message = f"Entity type {kind} cannot appear more than once in the filter."
            raise _BadFilter(Error.INVALID_REQUEST, message)
        if kind not in (USER, CLIENT_ID, IP):
            raise _BadFilter(Error.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if component.match_type not in (EXACT, DEFAULT, SPECIFIED):
            message = f"Unknown match type {component.match_type}"
            raise _BadFilter(Error.INVALID_REQUEST, message)
        if (component.match_type == EXACT) != (component.match is not None):
            message = f"Request specified {_MISMATCHES[component.match_type]}."
            raise _BadFilter(Error.INVALID_REQUEST, message)
        wanted[kind] = component
    if IP in wanted and len(wanted) > 1:
        message = (
            "Invalid entity filter component combination. IP filter component should "
            "not be used with user or clientId filter component."
        )
        raise _BadFilter(Error.INVALID_REQUEST, message)
    return wanted


def _matches(entity: Entity, components: dict[str, ComponentData], is_strict: bool) -> bool:
    if is_strict and len(entity) != len(components):
        return False
    return all(
        kind in entity and (component.match_type == SPECIFIED or entity[kind] == component.match)
        for kind, component in components.items()
    )


API = Api(kafka_apis.DESCRIBE_CLIENT_QUOTAS, handle)
