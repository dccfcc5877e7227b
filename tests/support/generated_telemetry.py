"""Telemetry requests of a generated history, with the fields added by the edge."""

from brokertwin.state.cluster.client_instances import ClientInstance
from tests.support.request_generator import RequestGenerator

INSTANCES = ["A" * 20 + letter + "A" for letter in "ABCD"]
"""Ids of client instances; the first one asks for another."""


def metrics(t: RequestGenerator) -> None:
    """A client asks which metrics are wanted of it, or pushes some."""
    broker, instance_id = t.any_broker(), t.choice.of(INSTANCES)
    connection, key = t.choice.of(["s1", "s2"]), t.choice.of([71, 72])
    table = t.clients.cell.tables.client_instances
    instance = table.get(f"{broker}/client-instance/{instance_id}", ClientInstance)
    body = {"clientInstanceId": instance_id, "clientSoftwareName": t.choice.of(["one", "other"])}
    pushed = {
        "subscriptionId": 0 if instance is None else instance.subscription_id,
        "terminating": t.choice.one_in(3),
        "compressionType": t.choice.of([0, 4, 9]),
        "metricsSizeInBytes": t.choice.of([10, 2_000_000]),
        "decompressedSizeInBytes": t.choice.of([20, -1]),
    }
    body |= pushed if key == 72 else {}
    t.send(key, broker, body, connection=connection)
