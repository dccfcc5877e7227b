"""Who answers which API."""

from brokertwin.state.apis.registry import BUILT

FORWARDED = {
    *("CREATE_TOPICS", "DELETE_TOPICS", "CREATE_PARTITIONS", "ELECT_LEADERS"),
    *("ALTER_PARTITION_REASSIGNMENTS", "LIST_PARTITION_REASSIGNMENTS"),
    *("ALTER_CONFIGS", "INCREMENTAL_ALTER_CONFIGS", "ALTER_CLIENT_QUOTAS"),
    *("CREATE_ACLS", "DELETE_ACLS"),
    *("CREATE_DELEGATION_TOKEN", "RENEW_DELEGATION_TOKEN", "EXPIRE_DELEGATION_TOKEN"),
    *("DESCRIBE_QUORUM", "UPDATE_FEATURES", "UNREGISTER_BROKER", "UNREGISTER_CONTROLLER"),
}
"""What brokers hand on to the controller: `KafkaApis.handle`."""

OF_CONTROLLERS = {
    *("ALLOCATE_PRODUCER_IDS", "ALTER_PARTITION"),
    *("BROKER_REGISTRATION", "BROKER_HEARTBEAT", "ASSIGN_REPLICAS_TO_DIRS"),
}
"""What brokers themselves ask it."""


def test_the_controller_handles_what_brokers_forward_and_request() -> None:
    """Cells without the controller handle all other requests by a broker's own data."""
    names = {api.name for api in BUILT.values() if api.on_controller}
    assert names == FORWARDED | OF_CONTROLLERS
