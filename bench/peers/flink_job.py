"""The check of the last five batches with PyFlink: state in RocksDB, a checkpoint each 5 s."""

import sys
from pathlib import Path
from typing import Any

from last_five import Batch, decide, read
from pyflink.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.state import ValueStateDescriptor

PARALLELISM = 2
CHECKPOINT_MS = 5_000
KeyedBatch = tuple[str, str, int, int]


def keyed_batches(value: str) -> list[KeyedBatch]:
    """A Produce as key, id and first and last sequence; nothing for other requests."""
    found = read(value)
    if found is None:
        return []
    event_id, cluster, name, batch = found
    return [(f"{cluster}/{name}", event_id, batch.base_sequence, batch.last_offset_delta)]


class Check(KeyedProcessFunction):
    """Answers the batches of a producer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        described = ValueStateDescriptor("batches", Types.PICKLED_BYTE_ARRAY())
        self._state = runtime_context.get_state(described)

    def process_element(self, value: KeyedBatch, _context: Any) -> Any:
        _, event_id, first, delta = value
        kept, answered = decide(self._state.value(), event_id, Batch(delta, 0, first))
        self._state.update(kept)
        yield answered.decode()


def main(bootstrap: str, requests: str, answers: str, directory: str, jar: str) -> None:
    """Runs until it is ended."""
    configuration = Configuration()
    configuration.set_string("restart-strategy.type", "none")
    configuration.set_string("state.backend.type", "rocksdb")
    configuration.set_string("execution.checkpointing.dir", f"file://{directory}")
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.add_jars(f"file://{jar}")
    environment.set_python_executable(sys.executable)
    environment.add_python_file(str(Path(__file__).with_name("last_five.py")))
    environment.set_parallelism(PARALLELISM)
    environment.enable_checkpointing(CHECKPOINT_MS)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(requests)
        .set_group_id(answers)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(answers)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(bootstrap)
        .set_record_serializer(serializer)
        .build()
    )
    named = Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT(), Types.INT()])
    rows = environment.from_source(source, WatermarkStrategy.no_watermarks(), "requests")
    rows = rows.flat_map(keyed_batches, output_type=named).key_by(lambda row: row[0])
    rows.process(Check(), output_type=Types.STRING()).sink_to(sink)
    environment.execute("last five batches")


if __name__ == "__main__":
    main(*sys.argv[1:])
