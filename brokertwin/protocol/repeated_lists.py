"""Lists of a request that its response repeats, with errors.

Source: `AbstractRequest.getErrorResponse` of each request in Kafka.
"""

import msgspec

ITSELF = ""
"""The name that an item has in a list of strings or numbers."""


class RepeatedList(msgspec.Struct, frozen=True):
    """How a response repeats a list of its request.

    Attributes:
        names: the fields that name an item: name in the response to name in the request.
        inner: the list within each item.
        code: the field that has an item's error.
        of_each: the list in the request whose items contain `request_list`.
    """

    request_list: str
    response_list: str
    names: dict[str, str]
    inner: "RepeatedList | None" = None
    code: str = "errorCode"
    of_each: str = ""


_BY_INDEX = RepeatedList("partitions", "partitions", {"partitionIndex": "partitionIndex"})
_BY_NUMBER = RepeatedList("partitionIndexes", "partitions", {"partitionIndex": ITSELF})
_BY_PARTITION = RepeatedList("partitions", "partitions", {"partition": "partition"})
_NAME = {"name": "name"}
_NAME_OR_ID = {"name": "name", "topicId": "topicId"}
_RESOURCE = {"resourceType": "resourceType", "resourceName": "resourceName"}

ACL_CREATIONS = RepeatedList("creations", "results", {})
ACL_FILTERS = RepeatedList("filters", "filterResults", {})
ALTERED_RESOURCES = RepeatedList("resources", "responses", _RESOURCE)
COORDINATOR_KEYS = RepeatedList("coordinatorKeys", "coordinators", {"key": ITSELF})
DELETED_TOPICS = RepeatedList("topics", "responses", _NAME_OR_ID)
DELETED_TOPIC_NAMES = RepeatedList("topicNames", "responses", {"name": ITSELF})
DESCRIBED_RESOURCES = RepeatedList("resources", "results", _RESOURCE)
ELECTED = RepeatedList(
    "topicPartitions",
    "replicaElectionResults",
    {"topic": "topic"},
    RepeatedList("partitions", "partitionResult", {"partitionId": ITSELF}),
)
FETCHED = RepeatedList(
    "topics",
    "responses",
    {"topic": "topic"},
    RepeatedList("partitions", "partitions", {"partitionIndex": "partition"}),
)
GROUPS = RepeatedList("groups", "groups", {"groupId": "groupId"})
GROUP_IDS = RepeatedList("groupIds", "groups", {"groupId": ITSELF})
GROUP_NAMES = RepeatedList("groups", "groups", {"groupId": ITSELF})
GROUPS_NAMES = RepeatedList("groupsNames", "results", {"groupId": ITSELF})
LOG_DIRS = RepeatedList(
    "topics",
    "results",
    {"topicName": "name"},
    RepeatedList("partitions", "partitions", {"partitionIndex": ITSELF}),
    of_each="dirs",
)
MARKERS = RepeatedList(
    "markers",
    "markers",
    {"producerId": "producerId"},
    RepeatedList("topics", "topics", _NAME, _BY_NUMBER),
)
PARTITIONED_TOPICS = RepeatedList("topics", "results", _NAME)
PARTITIONS_BY_INDEX = RepeatedList("topics", "topics", _NAME, _BY_INDEX)
PARTITIONS_BY_INDEX_OR_ID = RepeatedList("topics", "topics", _NAME_OR_ID, _BY_INDEX)
PARTITIONS_BY_NUMBER = RepeatedList("topics", "topics", _NAME, _BY_NUMBER)
PARTITION_EPOCHS = RepeatedList("topics", "topics", {"topic": "topic"}, _BY_PARTITION)
PRODUCED = RepeatedList(
    "topicData",
    "responses",
    _NAME_OR_ID,
    RepeatedList("partitionData", "partitionResponses", {"index": "index"}),
)
QUOTA_ENTRIES = RepeatedList("entries", "entries", {"entity": "entity"})
SHARE_STATES = RepeatedList("topics", "results", {"topicId": "topicId"}, _BY_PARTITION)
TOPICS = RepeatedList("topics", "topics", _NAME)
TOPICS_OR_IDS = RepeatedList("topics", "topics", _NAME_OR_ID)
TRANSACTIONAL_IDS = RepeatedList(
    "transactionalIds", "transactionStates", {"transactionalId": ITSELF}
)
TRANSACTION_PARTITIONS = RepeatedList(
    "v3AndBelowTopics",
    "resultsByTopicV3AndBelow",
    _NAME,
    RepeatedList(
        "partitions", "resultsByPartition", {"partitionIndex": ITSELF}, code="partitionErrorCode"
    ),
)
