"""Starts other releases of Kafka, for report cards and version notes.

    python -m tests.exam.other_kafkas 3.9.1 DIRECTORY [NAME=VALUE…]

The jars are downloaded into the directory. The broker runs until it is stopped by
`brokertwin kafka stop --data-dir DIRECTORY/broker`.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from brokertwin.kafka_io import jars
from brokertwin.kafka_io.jars import JarSet
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from tests.exam.record import SETTINGS

RELOAD4J = ("org.slf4j", "slf4j-reload4j", "1.7.36")
"""The logging binding of Kafka 3."""

LOG4J = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File=${kafka.logs.dir}/kafka.log
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def started(version: str, home: Path, settings: Mapping[str, str]) -> str:
    """Start a release of Kafka with more broker settings; return its address."""
    is_old = version.startswith("3.")
    binding = RELOAD4J if is_old else jars.BINDING
    release = JarSet("org.apache.kafka", f"kafka_{jars.SCALA_VERSION}", version, also=(binding,))
    setattr(jars, "kafka_jars", lambda: release)  # noqa: B010 - the release of this process
    home.mkdir(parents=True, exist_ok=True)
    log4j = home / "log4j.properties"
    log4j.write_text(LOG4J, encoding="utf-8")
    options = [f"-Dlog4j.configuration=file:{log4j.absolute()}"] if is_old else []
    return EmbeddedKafka(home / "broker", home, java_options=options).start(
        {**SETTINGS, **settings}
    )


if __name__ == "__main__":
    given = dict(each.split("=", 1) for each in sys.argv[3:])
    sys.stdout.write(f"{started(sys.argv[1], Path(sys.argv[2]), given)}\n")
