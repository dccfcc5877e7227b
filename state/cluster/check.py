"""What must hold of the images: names and topics agree, and all machines know the same."""

from collections.abc import Iterable

from brokerstream.state.access import check as access
from brokerstream.state.cluster import client_quotas, features, given_configs, image
from brokerstream.state.cluster.client_quotas import AnyQuotas
from brokerstream.state.cluster.image import Topic, TopicName, machine_prefix
from brokerstream.state.core import waiting
from brokerstream.state.core.check import Violations, by_kind
from brokerstream.state.core.decision import CONTROLLER
from brokerstream.state.core.tables import Tables
from brokerstream.state.logs.log import Log, log_key


def check(
    tables: Tables,
    brokers: Iterable[int],
    has_controller: bool = True,
    absent: Iterable[int] = (),
) -> Violations:
    """Each image, brokers' images against the controller's, and logs against images.

    Where another cell holds the controller, brokers' images are held against the first broker's.
    Brokers that are `absent` do not read what the controller writes.
    """
    held_here = list(brokers)
    machines = [CONTROLLER, *held_here] if has_controller else held_here
    topics = image.all_topics(tables.metadata, machines[0])
    for machine in machines:
        yield from _image(tables, machine)
        yield from access.check(tables.metadata, machine_prefix(machine))
    is_late = waiting.is_metadata_late(tables.waiting)
    for broker in held_here:
        known = image.all_topics(tables.metadata, broker)
        if not is_late and broker not in absent and known != topics:
            names = [topic.name for topic in known]
            other = machine_prefix(machines[0])
            yield f"broker {broker} knows the topics {names} otherwise than {other}"
        levels = [features.changed(tables.metadata, machine) for machine in (machines[0], broker)]
        if not is_late and broker not in absent and levels[0] != levels[1]:
            yield f"broker {broker} knows the features {levels[1]}, not {levels[0]}"
        settings = [
            [given_configs.everything(tables.metadata, m, kind) for kind in given_configs.KINDS]
            for m in (machines[0], broker)
        ]
        if not is_late and broker not in absent and settings[0] != settings[1]:
            yield f"broker {broker} knows the settings {settings[1]}, not {settings[0]}"
    yield from _logs(tables, held_here)


def _image(tables: Tables, machine: int) -> Violations:
    table, prefix = tables.metadata, machine_prefix(machine)
    by_id = {t.topic_id: t.name for _, t in table.items(f"{prefix}/topic/", Topic)}
    names = f"{prefix}/name/"
    by_name = {i.topic_id: k.removeprefix(names) for k, i in table.items(names, TopicName)}
    if by_id != by_name:
        yield f"{prefix}: the topics {by_id} go by the names {by_name}"
    for topic in image.all_topics(table, machine):
        for number, partition in enumerate(topic.partitions):
            is_led = partition.leader in partition.isr or partition.leader < 0
            in_sync = set(partition.isr)
            may_be_empty = partition.leader < 0  # with eligible leader replicas
            is_subset = bool(in_sync or may_be_empty) and in_sync <= set(partition.replicas)
            if not is_led or not is_subset or len(in_sync) != len(partition.isr):
                yield f"{prefix}: {topic.name}-{number} has the replicas {partition}"
    counted = table.get(f"{prefix}/quotas", AnyQuotas)
    quotas = client_quotas.all_quotas(table, machine)
    if (counted.entities if counted is not None else 0) != len(quotas):
        yield f"{prefix}: {counted} counts {len(quotas)} entities with a quota"


def _logs(tables: Tables, brokers: list[int]) -> Violations:
    wanted = {}
    for broker in brokers:
        for topic in image.all_topics(tables.metadata, broker):
            for number, partition in enumerate(topic.partitions):
                if broker in partition.replicas:
                    key = log_key(broker, topic.topic_id, number)
                    wanted[key] = partition.leader_epoch if partition.leader == broker else None
    found = by_kind(tables.logs).get("log", [])
    for key in sorted(wanted.keys() ^ set(found)):
        yield f"{key} {'is' if key in wanted else 'is not'} what an image says, but the log" + (
            " is not there" if key in wanted else " is there"
        )
    for key in found:
        log = tables.logs.get(key, Log)
        epoch = wanted.get(key)
        if log is not None and epoch is not None and log.leader_epoch != epoch:
            yield f"{key} is in leader epoch {log.leader_epoch}, its partition in {epoch}"
