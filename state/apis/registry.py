"""Every API that is built, by its key."""

from brokerstream.state.apis import (
    Api,
    allocate_producer_ids,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
)

_MODULES = (
    produce,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    find_coordinator,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    create_partitions,
    allocate_producer_ids,
    offset_for_leader_epoch,
    describe_cluster,
    describe_producers,
    describe_topic_partitions,
)

BUILT: dict[int, Api] = {module.API.key: module.API for module in _MODULES}
