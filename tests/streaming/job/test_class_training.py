"""Class archives after a setup, and their use by broker and job."""

import pytest

from brokertwin.kafka_io import class_archives, jars
from brokertwin.kafka_io.java import java_executable
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home, load
from brokertwin.streaming.job import class_training, session


@pytest.mark.spark
def test_an_existing_archive_is_kept() -> None:
    """The setup of this run has made them."""
    settings, messages = load({}).settings, list[str]()
    class_training.make(settings, messages.append)
    messages.clear()
    class_training.make(settings, messages.append)
    assert messages == []
    taken = class_archives.taking(session.driver_archive(settings.home))
    assert taken
    reported = session._configuration(settings, [], is_local=True)[session.DRIVER_OPTIONS]
    assert set(taken) <= set(reported.split())
    elsewhere = session._configuration(settings, [], is_local=False)[session.DRIVER_OPTIONS]
    assert not set(taken) & set(elsewhere.split())


@pytest.mark.kafka
def test_a_broker_starts_with_its_archive() -> None:
    directory = default_home() / "jars" / jars.kafka_jars().directory
    java = java_executable()
    archive = class_archives.archive(default_home(), class_archives.BROKER, java, directory)
    command = EmbeddedKafka(directory, default_home())._classes(java, directory)
    assert command[: len(class_archives.taking(archive))] == class_archives.taking(archive) != []
