"""`brokerstream setup`: fetch the jars that are not on PyPI."""

from brokerstream.cli.options import ConfigFile, settings_of
from brokerstream.cli.output import say


def command(config: ConfigFile = None) -> None:
    """Fetch the Spark-Kafka connector and the Kafka broker's jars, and check for Java.

    About 60 MB, once; later runs do nothing. Every command that needs them fetches them itself, so
    this is for machines that will have no network later.
    """
    from brokerstream.kafka_io import jars
    from brokerstream.kafka_io.java import java_executable

    settings = settings_of(config)
    java_executable()
    for wanted in (jars.connector_jars(), jars.kafka_jars()):
        jars.fetch(wanted, settings.home, settings.ivy_settings, say)
