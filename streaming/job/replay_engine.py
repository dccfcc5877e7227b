"""The engine `spark`: a schedule's events through Kafka and the streaming job.

The topics have a prefix of their own and the checkpoint a temporary directory; both are removed
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
from brokertwin.recordings.replay.comparison import Answer, decode_answer
from brokertwin.settings import Settings
from brokertwin.state.core import outputs
from brokertwin.state.core.settings import CellSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.streaming.job.job import Job

FLUSH_S = 60.0
RUN_NAME_BYTES = 4


def run(
    documents: Sequence[bytes],
    cell: CellSettings,
    settings: Settings,
    on_progress: Callable[[int], None] = lambda _: None,
    session: "SparkSession | None" = None,
) -> dict[str, Answer]:
    """Hand the events to a job of their own and read its answers.

    Args:
        documents: the events, in order.
        cell: what the cell is told, as for the engine `local`.
        settings: how to reach Kafka, the Spark master, and the like.
        on_progress: called with the number of events that are handled.
        session: a Spark session to use; without it one is started, and stopped afterwards.

    Returns:
        The answer to each request, by its id.

    Raises:
        UserError: Kafka cannot be reached, or the query failed.
    """
    from brokertwin.kafka_io.kafka_clients import client_properties
    from brokertwin.streaming.job import runner

    with tempfile.TemporaryDirectory(prefix="brokertwin-replay-") as directory:
        own = _own_settings(settings, cell, Path(directory))
        client = client_properties(own)
        with runner.prepared(own, cell.broker_settings) as job, _removed_topics(client, own):
            produce(job, cell.cluster, documents)
            _run_to_the_end(with_cell(job, cell), session, on_progress)
            return answers_of(job)


def answers_of(job: "Job") -> dict[str, Answer]:
    """What the job has answered so far, by request id."""
    from brokertwin.kafka_io.topic_reader import read_all, without_repeats
    from brokertwin.kafka_io.topics import full_name

    rows = read_all(job.client, full_name(job.settings.prefix, outputs.RESPONSES))
    return {row.id: decode_answer(row.value) for row in without_repeats(rows) if row.value}


def _own_settings(settings: Settings, cell: CellSettings, directory: Path) -> Settings:
    """A prefix and a checkpoint that nobody else has, for one cluster."""
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


def with_cell(job: "Job", cell: CellSettings) -> "Job":
    """The job, its cell told the same as that of the engine `local`."""
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


def produce(job: "Job", cluster: str, documents: Sequence[bytes]) -> None:
    """Write the events in order. Raises UserError where Kafka does not take them."""
    from brokertwin.kafka_io.topic_writer import NewRow, write_all
    from brokertwin.kafka_io.topics import REQUESTS, full_name

    rows = (NewRow(cluster, document, 0) for document in documents)
    write_all(job.client, full_name(job.settings.prefix, REQUESTS), rows)


def _run_to_the_end(
    job: "Job", session: "SparkSession | None", on_progress: Callable[[int], None]
) -> None:
    from brokertwin.streaming.job import runner
    from brokertwin.streaming.job.measures import Progress
    from brokertwin.streaming.job.session import spark_session

    done = 0

    def observe(progress: Progress) -> None:
        nonlocal done
        done += progress.events
        on_progress(done)

    used = session or spark_session(job.settings)
    try:
        stop = runner.Stop(job.settings.stop_timeout_s)
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
    """Removes the job's topics at the end; one that cannot be removed stays."""
    from brokertwin.kafka_io.topics import admin_client, full_name, specs

    try:
        yield
    finally:
        names = [full_name(settings.prefix, spec.name) for spec in specs(settings)]
        admin = admin_client(client)  # its futures fail when it is gone
        for removed in admin.delete_topics(names, operation_timeout=FLUSH_S).values():
            removed.exception(FLUSH_S)
