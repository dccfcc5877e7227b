"""AlterConfigs (key 33, versions 0 to 2): replace settings of resources.

Resources are topics and brokers; broker loggers are not supported. Runs on the controller;
`state/cluster/config_changes.py` has the rules. KIP-133; later clients use
IncrementalAlterConfigs. A request that repeats a resource gets a response here; Kafka 4.3.1 sends
none.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.alter_configs import AlterConfigsRequest
from brokertwin.state.apis.incremental_alter_configs import decision
from brokertwin.state.cluster import config_changes
from brokertwin.state.cluster.config_changes import ChangedResource, ConfigEdit, ConfigOperation
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request


def handle(controller: Controller, request: Request) -> Decision:
    """Alter each resource; omitted settings return to their defaults."""
    body: AlterConfigsRequest = request.body
    resources = [
        ChangedResource(
            resource.resource_type,
            resource.resource_name,
            [
                ConfigEdit(config.name, ConfigOperation.SET, config.value)
                for config in resource.configs
            ],
            is_complete=True,
            store_fault=body.edge.store_fault,
        )
        for resource in body.resources
    ]
    outcomes = config_changes.outcomes(controller, request, resources, {})
    return decision(resources, outcomes, body.validate_only)


API = Api(kafka_apis.ALTER_CONFIGS, handle)
