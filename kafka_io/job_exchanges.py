"""A job's requests and responses, read from its topics."""

from collections.abc import Callable
from typing import NamedTuple

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import TopicRow, read_all, without_repeats
from brokertwin.kafka_io.topics import REQUESTS, full_name
from brokertwin.state.core import outputs


class JobExchanges(NamedTuple):
    """Rows of `requests` by partition and offset, and values of `responses` by event id."""

    requests: list[TopicRow]
    responses_by_id: dict[str, bytes | None]


def read(
    client: ClientProperties, prefix: str, observe: Callable[[int], None] = lambda _: None
) -> JobExchanges:
    """Read a job's topics. Responses are read last, so each has its request.

    Args:
        client: connection properties.
        prefix: prefix of the job's topics.
        observe: called with the number of remaining rows of the current topic.

    Raises:
        UserError: missing topics, or no response from Kafka.
    """
    requests = list(read_all(client, full_name(prefix, REQUESTS), None, observe))
    responses = read_all(client, full_name(prefix, outputs.RESPONSES), None, observe)
    responses_by_id = {row.id: row.value for row in without_repeats(responses)}
    return JobExchanges(
        sorted(requests, key=lambda row: (row.partition, row.offset)), responses_by_id
    )
