"""The topics of a Streams application."""

from collections.abc import Collection

from brokertwin.clients.streams.layout import Layout, layout, source_topics
from brokertwin.clients.streams.topology import Topology, TopologyError
from brokertwin.errors import UserError
from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_clients import ClientProperties


def prepare_topics(
    kafka: ClientProperties,
    application_id: str,
    topology: Topology,
    sinks: set[str],
    create: int | None,
) -> tuple[Layout, Collection[str]]:
    """Create the internal topics, and others with `create` partitions; returns the created ones.

    Raises UserError if topics are missing or do not fit the application.
    """
    admin = topics.admin_client(kafka)
    there = topics.existing(admin, kafka)
    topic_names, _ = source_topics(application_id, topology)
    missing = sorted((topic_names | sinks) - there.keys())
    if missing and create is None:
        raise UserError(
            f"These topics do not exist: {', '.join(missing)}.",
            "Create them, or add --create PARTITIONS.",
        )
    new = {name: topics.TopicSpec(name, create or 1) for name in missing}
    counts = there | {name: spec.partitions for name, spec in new.items()}
    try:
        made = layout(application_id, topology, counts)
    except TopologyError as error:
        raise UserError(f"The topics do not fit the application: {error}.") from None
    for topic in made.internal_topics.values():
        if topic.name not in there:
            new[topic.name] = topics.TopicSpec(topic.name, topic.partitions, topic.settings)
    topics.create(admin, new)
    return made, new.keys()
