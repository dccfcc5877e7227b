"""The check of the last five batches with Bytewax: state in memory, snapshots of it in SQLite."""

from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from confluent_kafka import OFFSET_BEGINNING
from last_five import Batch, State, decide, read

KeyedBatch = tuple[str, tuple[str, str, Batch]]


def keyed_batch(message: Any) -> KeyedBatch | None:
    """A Produce, under the key of its producer's state."""
    found = read(message.value)
    if found is None:
        return None
    event_id, cluster, name, batch = found
    return f"{cluster}/{name}", (cluster, event_id, batch)


def answer(state: State | None, batch: tuple[str, str, Batch]) -> tuple[State, KafkaSinkMessage]:
    cluster, event_id, header = batch
    kept, answered = decide(state, event_id, header)
    return kept, KafkaSinkMessage(cluster.encode(), answered)


def flow(bootstrap: str, requests: str, answers: str) -> Dataflow:
    made = Dataflow("last_five")
    source = KafkaSource([bootstrap], [requests], starting_offset=OFFSET_BEGINNING)
    produced = op.filter_map("keyed_batch", op.input("requests", made, source), keyed_batch)
    answered = op.map("row", op.stateful_map("answer", produced, answer), lambda pair: pair[1])
    op.output("answers", answered, KafkaSink([bootstrap], answers))
    return made
