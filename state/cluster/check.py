"""Invariants of metadata images: names and topics agree, and all machines have the same.

Also those of client instances (`client_instances.check`).
"""

from collections.abc import Iterable, Sequence

from brokertwin.state.access import check as access
from brokertwin.state.cluster import client_instances, client_quotas, features, given_configs, image
from brokertwin.state.cluster.client_quotas import AnyQuotas
from brokertwin.state.cluster.image import Topic, TopicName
from brokertwin.state.core import pending
from brokertwin.state.core.check import ALL, Touched, Violations, by_kind, kind_of, machine_of
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.tables import CellTables, MachineTables, machine_prefix
from brokertwin.state.logs.log import Log, log_key


def check(
    tables: CellTables,
    brokers: Sequence[int],
    has_controller: bool = True,
    absent: Iterable[int] = (),
    touched: Touched = ALL,
) -> Violations:
    """Check each image, brokers against the controller, and logs against images.

    Without the controller in this cell, the first broker's image is compared. `absent` brokers do
    not read metadata.
    """
    has_news = touched.has("pending", "late-metadata") or touched.has("cluster", "network")
    if touched.has("metadata") or has_news:
        yield from _images(tables, brokers, has_controller, absent)
    else:
        yield from _logs_touched(tables, touched)
    if touched.has("client_instances"):
        for broker in brokers:
            yield from client_instances.check(tables.of(broker))


def _images(
    tables: CellTables, held_here: Sequence[int], has_controller: bool, absent: Iterable[int]
) -> Violations:
    machines = [CONTROLLER, *held_here] if has_controller else [*held_here]
    topics = {machine: image.all_topics(tables.of(machine)) for machine in machines}
    for machine in machines:
        yield from _image(tables.of(machine), topics[machine])
        yield from access.check(tables.of(machine))
    alike = _group_alike(topics)
    for members, images in alike:
        yield from _partitions(machine_prefix(members[0]), images)
    if not pending.is_metadata_late(tables.pending):
        others = [broker for broker in held_here if broker not in {*absent, machines[0]}]
        yield from _images_agree(tables, machines[0], others, topics)
    yield from _logs(tables, alike)


Alike = list[tuple[list[int], list[Topic]]]
"""Groups of machines with equal topics; usually a single one."""


def _group_alike(topics: dict[int, list[Topic]]) -> Alike:
    alike: Alike = []
    for machine, known in topics.items():
        for members, same in alike:
            if known == same:
                members.append(machine)
                break
        else:
            alike.append(([machine], known))
    return alike


def _images_agree(
    tables: CellTables, first: int, others: list[int], topics: dict[int, list[Topic]]
) -> Violations:
    """Brokers have the same metadata as the first machine."""
    levels, settings = features.changed(tables.of(first)), _settings(tables.of(first))
    for broker in others:
        if topics[broker] != topics[first]:
            names = [topic.name for topic in topics[broker]]
            other = machine_prefix(first)
            yield f"broker {broker} has other topics than {other}: {names}"
        known = features.changed(tables.of(broker))
        if known != levels:
            yield f"broker {broker} has the features {known}, not {levels}"
        options = _settings(tables.of(broker))
        if options != settings:
            yield f"broker {broker} has the settings {options}, not {settings}"


def _settings(at: MachineTables) -> list[dict[str, dict[str, str]]]:
    """A machine's dynamic settings of each kind; empty if no machine has any."""
    if by_kind(at.tables.metadata).keys().isdisjoint(given_configs.KINDS):
        return []
    return [given_configs.everything(at, k) for k in given_configs.KINDS]


def _image(at: MachineTables, topics: list[Topic]) -> Violations:
    table, prefix = at.tables.metadata, at.prefix
    by_id = {topic.topic_id: topic.name for topic in topics}
    names = f"{prefix}/name/"
    by_name = {i.topic_id: k.removeprefix(names) for k, i in table.items(names, TopicName)}
    if by_id != by_name:
        yield f"{prefix}: the topics {by_id} have the names {by_name}"
    counted = table.get(f"{prefix}/quotas", AnyQuotas)
    quotas = client_quotas.all_quotas(at)
    if (counted.entities if counted is not None else 0) != len(quotas):
        yield f"{prefix}: {counted} counts {len(quotas)} entities with a quota"


def _partitions(prefix: str, topics: list[Topic]) -> Violations:
    for topic in topics:
        for number, partition in enumerate(topic.partitions):
            is_led = partition.leader in partition.isr or partition.leader < 0
            in_sync = set(partition.isr)
            may_be_empty = partition.leader < 0  # with eligible leader replicas
            is_subset = bool(in_sync or may_be_empty) and in_sync <= set(partition.replicas)
            if not is_led or not is_subset or len(in_sync) != len(partition.isr):
                yield f"{prefix}: {topic.name}-{number} has the replicas {partition}"


def _logs(tables: CellTables, alike: Alike) -> Violations:
    wanted: dict[str, int | None] = {}
    for members, topics in alike:
        for topic in topics:
            for number, partition in enumerate(topic.partitions):
                for broker in partition.replicas:
                    if broker in members:
                        is_led = partition.leader == broker
                        key = log_key(broker, topic.topic_id, number)
                        wanted[key] = partition.leader_epoch if is_led else None
    logs = by_kind(tables.logs).get("log", [])
    for key in sorted(wanted.keys() ^ set(logs)):
        yield _log_mismatch(key, key in wanted)
    for key in logs:
        log = tables.logs.get(key, Log)
        epoch = wanted.get(key)
        if log is not None and epoch is not None and log.leader_epoch != epoch:
            yield _in_another_epoch(key, log, epoch)


def _in_another_epoch(key: str, log: Log, epoch: int) -> str:
    return f"{key} is in leader epoch {log.leader_epoch}, its partition in {epoch}"


def _log_mismatch(key: str, is_wanted: bool) -> str:
    return f"{key} is a replica without a log" if is_wanted else f"{key} is a log without a replica"


def _logs_touched(tables: CellTables, touched: Touched) -> Violations:
    """Check touched logs alone; the images have not changed."""
    for key in touched.keys("logs", tables.logs):
        if kind_of(key) != "log":
            continue
        broker, (_, _, topic_id, number) = machine_of(key) or 0, key.split("/")
        topic = image.topic_by_id(tables.of(broker), topic_id)
        partitions = topic.partitions[int(number) : int(number) + 1] if topic is not None else []
        is_wanted = any(broker in each.replicas for each in partitions)
        log = tables.logs.get(key, Log)
        if is_wanted != (log is not None):
            yield _log_mismatch(key, is_wanted)
        led_in = [each.leader_epoch for each in partitions if each.leader == broker]
        if log is not None and led_in not in ([], [log.leader_epoch]):
            yield _in_another_epoch(key, log, led_in[0])
