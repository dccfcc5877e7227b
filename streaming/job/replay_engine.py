"""The engine `spark`: sends events through Kafka and the streaming job.

The topics have their own prefix and the checkpoint is in a temporary directory. Both are removed
afterwards. Spark and the Kafka clients are imported when the engine runs.
"""

import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from brokertwin.errors import UserError
from brokertwin.recordings.replay.comparison import ModelResponse, decode_response
from brokertwin.settings import Settings
from brokertwin.state.core import outputs
from brokertwin.state.core.settings import CellSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.streaming.job.job import StreamingJob
    from brokertwin.streaming.job.measures import QueryProgress

FLUSH_S = 60.0
RUN_NAME_BYTES = 4


def run(
    documents: Sequence[bytes],
    cell: CellSettings,
    settings: Settings,
    on_progress: Callable[[int], None] = lambda _: None,
    session: "SparkSession | None" = None,
) -> dict[str, ModelResponse]:
    """Run the events through a separate job and return its responses.

    Args:
        documents: the events, in order.
        cell: the cell settings, as for the engine `local`.
        settings: connection to Kafka, Spark master and others.
        on_progress: called with the number of processed events.
        session: a Spark session; by default one is started and stopped.

    Returns:
        Responses by request id.

    Raises:
        UserError: Kafka does not respond, or the query failed.
    """
    from brokertwin.kafka_io.kafka_clients import client_properties
    from brokertwin.streaming.job import runner

    done = 0

    def observe(progress: "QueryProgress") -> None:
        nonlocal done
        done += progress.events
        on_progress(done)

    with tempfile.TemporaryDirectory(prefix="brokertwin-replay-") as directory:
        own = _own_settings(settings, cell, Path(directory))
        client = client_properties(own)
        with runner.prepared(own, cell.broker_settings) as job, _removed_topics(client, own):
            return run_job(job, documents, cell, session, observe)


def run_job(
    job: "StreamingJob",
    documents: Sequence[bytes],
    cell: CellSettings,
    session: "SparkSession | None",
    observe: "Callable[[QueryProgress], None]",
) -> dict[str, ModelResponse]:
    """Write the events, run the job to their end, and return its responses by request id.

    Raises:
        UserError: Kafka rejects the events, or the query failed.
    """
    from brokertwin.kafka_io.topic_reader import read_all, without_repeats
    from brokertwin.kafka_io.topics import REQUESTS, full_name
    from brokertwin.sinks.topic_writer import NewRow, write_all

    events = (NewRow(cell.cluster, document, 0) for document in documents)
    write_all(job.client, full_name(job.settings.prefix, REQUESTS), events)
    _run_to_the_end(_with_cell(job, cell), session, observe)
    rows = read_all(job.client, full_name(job.settings.prefix, outputs.RESPONSES))
    return {row.id: decode_response(row.value) for row in without_repeats(rows) if row.value}


def _own_settings(settings: Settings, cell: CellSettings, directory: Path) -> Settings:
    """Settings with a unique prefix and checkpoint, for one cluster."""
    return settings.model_copy(
        update={
            "prefix": f"{settings.prefix}.replay-{secrets.token_hex(RUN_NAME_BYTES)}",
            "checkpoint": directory / "checkpoint",
            "clusters": (cell.cluster,),
            "cells": 1,
            "event_time": "recorded",
            "requests_partitions": 1,
            "responses_partitions": 1,
        }
    )


def _with_cell(job: "StreamingJob", cell: CellSettings) -> "StreamingJob":
    """Give the job's cell the settings of the engine `local`."""
    cells = {
        key: msgspec.structs.replace(
            cell,
            name=placed.name,
            requests_partitions=placed.requests_partitions,
            responses_partitions=placed.responses_partitions,
        )
        for key, placed in job.cells.items()
    }
    return replace(job, cells=cells)


def _run_to_the_end(
    job: "StreamingJob",
    session: "SparkSession | None",
    observe: "Callable[[QueryProgress], None]",
) -> None:
    from brokertwin.streaming.job import runner
    from brokertwin.streaming.job.session import spark_session

    used = session or spark_session(job.settings)
    try:
        stop = runner.StopReason(job.settings.stop_timeout_s)
        ended = runner.run(job, stop, available_now=True, observe=observe, session=used)
    except runner.QueryFailed as failed:
        raise UserError(f"The streaming query failed: {failed}") from None
    finally:
        if session is None:
            used.stop()
    if not ended.is_clean:
        raise UserError(f"Micro-batch {ended.planned} was not committed.")


@contextmanager
def _removed_topics(client: "ClientProperties", settings: Settings) -> Iterator[None]:
    """Remove the job's topics at the end, ignoring failures."""
    from brokertwin.kafka_io.topics import admin_client, full_name, specs

    try:
        yield
    finally:
        names = [full_name(settings.prefix, spec.name) for spec in specs(settings)]
        admin = admin_client(client)  # keeps its futures alive
        for removed in admin.delete_topics(names, operation_timeout=FLUSH_S).values():
            removed.exception(FLUSH_S)
