"""The requests that a job was given and what it answered, read from its topics."""

from collections.abc import Callable
from typing import NamedTuple

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import Row, read_all, without_repeats
from brokertwin.kafka_io.topics import REQUESTS, full_name
from brokertwin.state.core import outputs


class JobExchanges(NamedTuple):
    """Rows of `requests`, by partition and offset, and the values of `responses` by event id."""

    requests: list[Row]
    answers: dict[str, bytes | None]


def read(
    client: ClientProperties, prefix: str, observe: Callable[[int], None] = lambda _: None
) -> JobExchanges:
    """All that is in a job's topics now. Answers are read last: each is one of these requests.

    Args:
        client: how to reach Kafka.
        prefix: of the job's topics.
        observe: is told now and then how many rows of the topic that is read are left.

    Raises:
        UserError: there are no such topics, or Kafka does not answer.
    """
    requests = list(read_all(client, full_name(prefix, REQUESTS), None, observe))
    responses = read_all(client, full_name(prefix, outputs.RESPONSES), None, observe)
    answers = {row.id: row.value for row in without_repeats(responses)}
    return JobExchanges(sorted(requests, key=lambda row: (row.partition, row.offset)), answers)
