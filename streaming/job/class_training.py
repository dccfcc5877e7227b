"""Creates Java class archives by running a broker and a local job once.

The job processes one invalid row, so that source, operator, state store and sink are loaded. Its
JVM writes the archive when it ends.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from brokertwin.kafka_io import class_archives, jars
from brokertwin.kafka_io.java import java_executable
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.topics import REQUESTS, full_name
from brokertwin.settings import Settings
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.job import jvm, runner, session

MADE_WITHIN_S = 300.0
"""Timeout for a JVM to end; it writes 50 or 170 MB."""

NO_EVENT = b"no event"


def make(settings: Settings, report: Callable[[str], None]) -> None:
    """Create the missing archives; the jars must exist.

    Raises:
        UserError: no Java, or Kafka did not start.
        QueryFailed: the job failed.
    """
    java = java_executable()
    kafka_jars = settings.home / "jars" / jars.kafka_jars().directory
    broker = class_archives.archive(settings.home, class_archives.BROKER, java, kafka_jars)
    driver = session.driver_archive(settings.home)
    if broker.is_file() and driver.is_file():
        return
    report("creating class archives of Kafka and Spark, which halve their start time")
    with (
        tempfile.TemporaryDirectory(prefix="brokertwin-") as scratch,
        _kafka(settings, Path(scratch), broker) as bootstrap,
    ):
        if not driver.is_file():
            _run_a_job(settings, Path(scratch), bootstrap, driver)


@contextmanager
def _kafka(settings: Settings, scratch: Path, archive: Path) -> Iterator[str]:
    """A broker that writes its archive when it ends, if there is none."""
    if archive.is_file():
        yield from _running(EmbeddedKafka(scratch / "kafka", settings.home))
        return
    with class_archives.made(archive) as options:
        broker = EmbeddedKafka(scratch / "kafka", settings.home, java_options=options)
        yield from _running(broker)


def _running(broker: EmbeddedKafka) -> Iterator[str]:
    try:
        yield broker.start()
    finally:
        broker.stop(MADE_WITHIN_S)


def _run_a_job(settings: Settings, scratch: Path, bootstrap: str, archive: Path) -> None:
    with class_archives.made(archive) as options:
        own = settings.model_copy(
            update={
                "bootstrap": bootstrap,
                "kafka_config": None,
                "prefix": "training",
                "clusters": ("training",),
                "brokers": "1",
                "cells": 1,
                "checkpoint": scratch / "checkpoint",
                "master": "local[2]",
                "event_time": "recorded",
                "spark_conf": (),
                "spark_ui": False,
            }
        )
        with runner.prepared(own, BrokerSettings()) as prepared:
            producer = Producer({"bootstrap.servers": bootstrap})
            producer.produce(full_name(own.prefix, REQUESTS), NO_EVENT, partition=0)
            producer.flush()
            started = session.spark_session(own, java_options=options)
            try:
                stop = runner.StopReason(own.stop_timeout_s)
                runner.run(prepared, stop, available_now=True, session=started)
            finally:
                started.stop()
                jvm.stop(MADE_WITHIN_S)
