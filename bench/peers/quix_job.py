"""The check of the last five batches with Quix Streams: state in RocksDB and a changelog topic."""

import sys
from typing import Any

from last_five import decide, read
from quixstreams import Application, State


def answer(value: bytes, state: State) -> bytes | None:
    found = read(value)
    if found is None:
        return None
    event_id, _, name, batch = found
    kept, answered = decide(state.get(name), event_id, batch)
    state.set(name, kept)
    return answered


def main(bootstrap: str, requests: str, answers: str, directory: str) -> None:
    application = Application(
        broker_address=bootstrap,
        consumer_group=answers,
        auto_offset_reset="earliest",
        state_dir=directory,
        loglevel="WARNING",
    )
    source: Any = application.topic(requests, key_deserializer="bytes", value_deserializer="bytes")
    sink: Any = application.topic(answers, key_serializer="bytes", value_serializer="bytes")
    rows = application.dataframe(source)
    rows = rows.apply(answer, stateful=True)
    rows = rows[rows.apply(lambda value: value is not None)]
    rows.to_topic(sink)
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
