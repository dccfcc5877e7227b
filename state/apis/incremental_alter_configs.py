"""IncrementalAlterConfigs (key 44, versions 0 to 1): change settings.

Resources are topics, brokers, groups and client metrics; the gateway handles broker loggers. Runs
on the controller; `state/cluster/config_changes.py` has the rules. KIP-339.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.incremental_alter_configs import IncrementalAlterConfigsRequest
from brokertwin.protocol.generated.shared import AlterConfigsResourceResponse, AlterConfigsResponse
from brokertwin.state.cluster import config_changes
from brokertwin.state.cluster.config_changes import ChangedResource, ConfigEdit, ConfigOutcome
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import Record

NOT_BUILT = {8: "broker loggers"}


def handle(controller: Controller, request: Request) -> Decision:
    """Change each resource independently; an error affects only its resource."""
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
    outcomes = config_changes.outcomes(controller, request, resources, NOT_BUILT)
    return decision(resources, outcomes, body.validate_only)


def decision(
    resources: list[ChangedResource], outcomes: list[ConfigOutcome], validate_only: bool
) -> Decision:
    """Return the results in request order and the records of all resources."""
    records: list[Record] = []
    if not validate_only:
        records = [record for outcome in outcomes for record in outcome.records]
    responses = [
        AlterConfigsResourceResponse(
            error_code=int(outcome.error),
            error_message=outcome.text,
            resource_type=resource.resource_type,
            resource_name=resource.name,
        )
        for resource, outcome in zip(resources, outcomes, strict=True)
    ]
    return Decision(records=records, response=AlterConfigsResponse(responses=responses))


API = Api(kafka_apis.INCREMENTAL_ALTER_CONFIGS, handle)
