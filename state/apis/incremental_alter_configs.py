"""IncrementalAlterConfigs (key 44, versions 0 and 1): single settings change.

Of topics, brokers, groups and client metrics. Runs on the controller;
`state/cluster/config_changes.py` has the rules. KIP-339. The loggers of brokers are the edge's.
"""

from msgspec import field

from brokertwin.state.cluster import config_changes
from brokertwin.state.cluster.config_changes import ChangedResource, ConfigEdit, ConfigOutcome
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import Record
from brokertwin.state.core.schema import Body, Int8, Int16, Int32

NOT_BUILT = {8: "broker loggers"}


class AlterableConfig(Body):
    name: str = ""
    config_operation: Int8 = 0
    value: str | None = None


class AlterConfigsResource(Body):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


class Edge(Body):
    """What only the edge knows: what is wrong with the stores that the broker asked would have."""

    store_fault: str | None = None


class IncrementalAlterConfigsRequest(Body):
    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False
    edge: Edge = field(default_factory=Edge)


class AlteredResource(Body):
    error_code: Int16
    error_message: str | None
    resource_type: Int8
    resource_name: str


class AlterConfigsResponse(Body):
    """The answer, also of AlterConfigs."""

    throttle_time_ms: Int32 = 0
    responses: list[AlteredResource] = field(default_factory=list)


def handle(controller: Controller, request: Request) -> Decision:
    """Each resource by itself: what is wrong with one changes nothing for the others."""
    body: IncrementalAlterConfigsRequest = request.body
    resources = [
        ChangedResource(
            resource.resource_type,
            resource.resource_name,
            [ConfigEdit(c.name, c.config_operation, c.value) for c in resource.configs],
            store_fault=body.edge.store_fault,
        )
        for resource in body.resources
    ]
    found = config_changes.outcomes(controller, request, resources, NOT_BUILT)
    return decision(resources, found, body.validate_only)


def decision(
    resources: list[ChangedResource], found: list[ConfigOutcome], validate_only: bool
) -> Decision:
    """The answer for each resource in the order of the request, and the records of all."""
    records: list[Record] = []
    if not validate_only:
        records = [record for outcome in found for record in outcome.records]
    responses = [
        AlteredResource(
            error_code=int(outcome.error),
            error_message=outcome.text,
            resource_type=resource.resource_type,
            resource_name=resource.name,
        )
        for resource, outcome in zip(resources, found, strict=True)
    ]
    return Decision(records=records, response=AlterConfigsResponse(responses=responses))


API = Api(kafka_apis.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest, handle)
