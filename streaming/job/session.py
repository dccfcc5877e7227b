"""The Spark session of a job; PySpark is imported on first use."""

import importlib.util
import os
import re
import shlex
import socket
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from brokertwin import places
from brokertwin.errors import UserError
from brokertwin.kafka_io import class_archives, jars
from brokertwin.kafka_io.java import java_executable
from brokertwin.settings import SPARK_OF_THE_JOB, Settings
from brokertwin.streaming.job import jvm, spark_submit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

    from brokertwin.kafka_io.kafka_clients import ClientProperties

SHIPPED = tuple(
    "brokertwin" + part
    for part in (
        *("", ".kafka_io", ".offsets", ".protocol", ".recordings", ".sinks", ".state"),
        *(".streaming", ".tables"),
    )
)
"""Packages that Spark's Python workers import."""

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SOURCE = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(4 * 1024 * 1024),
}
"""Consumer options of Spark's Kafka source: a poll returns a whole fetch, not 500 rows of it.

After each poll Spark requests the first and the last offset, and drops what was fetched ahead
(`InternalKafkaConsumer.fetch`).
"""

ROWS_PER_ARROW_BATCH = 5_000
WORKER_DAEMON = "brokertwin.streaming.job.worker_daemon"
POLLING_DELAY = "50ms"
"""How long an idle query waits before it polls Kafka again."""

STOP_TIMEOUT = "3s"
"""How long `query.stop()` waits; Spark's default is unlimited."""

FILE_MANAGER = "org.apache.spark.sql.execution.streaming{}.FileSystemBasedCheckpointFileManager"
"""How a local job writes checkpoint files: under a temporary name, then renamed.

Spark's default does the same but runs `readlink` as a process, 32 times in a micro-batch of two
tasks. A rename on a local disk is atomic in both. Its package is `checkpointing` since Spark 4.1.
"""

COMPILE_ONCE = "-XX:TieredStopAtLevel=1"
"""Disables the second JIT compiler.

A small micro-batch runs most of Spark's code once. Recompiling took a third of the JVM's time, and
large micro-batches gained nothing.
"""

VFORK = "-Djdk.lang.Process.launchMechanism=VFORK"
"""Halves the time of the `chmod` that Hadoop starts for each checkpoint file."""

DRIVER_OPTIONS = "spark.driver.extraJavaOptions"

LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*\])?")
LOCAL_TRIES = 4
"""Like `spark.task.maxFailures` on a cluster."""

LOOPBACK = "127.0.0.1"
S3A = "spark.hadoop.fs.s3a."
STANDALONE = "spark://"
MASTER_TIMEOUT_S = 5.0
YARN_DIRECTORIES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def spark_session(
    settings: Settings,
    say: Callable[[str], None] = lambda _: None,
    java_options: Sequence[str] = (),
) -> "SparkSession":
    """Start a Spark session, or return the running one.

    Missing connector jars are downloaded first. `spark-submit` may have set others, which are used
    instead. On a cluster the packages are sent to the executors. These need Python 3.11, msgspec,
    pandas and pyarrow; set `PYSPARK_PYTHON` if it is another interpreter.

    Args:
        settings: master, driver memory, shuffle partitions, jar directory.
        say: called with a text before slow steps.
        java_options: additional options of the driver's JVM.

    Raises:
        UserError: see `check_start`, or the jars cannot be downloaded.
    """
    check_start(settings)
    is_submitted = spark_submit.is_active()
    connector: list[Path] = []
    if not is_submitted or not spark_submit.has_connector():
        connector = jars.fetch(jars.connector_jars(), settings.home, settings.ivy_settings, say)
    if not is_submitted and places.is_s3(settings.checkpoint_dir):
        connector += jars.fetch(jars.s3_jars(), settings.home, settings.ivy_settings, say)
    is_local = settings.master.startswith("local")
    if is_local or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)

    say(f"starting Spark {jars.spark_version()} on {settings.master}")
    from pyspark.sql import SparkSession

    configuration = {
        "spark.app.name": f"brokertwin {settings.prefix}",
        **_configuration(settings, connector, is_local),
    }
    if java_options:
        configuration[DRIVER_OPTIONS] += f" {shlex.join(java_options)}"
    if is_submitted:
        configuration = _beside(spark_submit.configuration(), configuration)
        spark_submit.add_to_driver(connector)
    configuration |= {**settings.spark_configuration, "spark.master": tried(settings.master)}
    jvm.start(configuration)
    builder = SparkSession.builder
    for name, value in configuration.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _ = session.streams  # Spark 4.2.0 reads state only if this has been used (SPARK-58973)
    if not is_local:
        session.sparkContext.addPyFile(str(packages_zip(settings.home)))
    if session.sparkContext.uiWebUrl is not None:
        say(f"Spark UI at {session.sparkContext.uiWebUrl}")
    return session


@contextmanager
def session_when_needed(
    settings: Settings, say: Callable[[str], None] = lambda _: None
) -> Iterator[Callable[[], "SparkSession"]]:
    """Yield a function that starts a Spark session at its first call.

    The session is stopped at the end.

    Args:
        settings: see `spark_session`.
        say: called with a text before slow steps.
    """
    started: list[SparkSession] = []

    def session() -> "SparkSession":
        if not started:
            started.append(spark_session(settings, say))
        return started[0]

    try:
        yield session
    finally:
        for one in started:
            one.stop()


def kafka_source(
    session: "SparkSession",
    client: "ClientProperties",
    topics: Iterable[str],
    rows: int,
    group: str,
) -> "DataStreamReader":
    """Read topics from their beginning.

    Args:
        session: the Spark session.
        client: the connection to Kafka.
        topics: full names.
        rows: maximum number of rows of a micro-batch.
        group: prefix of the names of Spark's consumer groups.
    """
    return (
        session.readStream.format("kafka")
        .options(**client.for_spark())
        .options(**SOURCE)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows)
        .option("groupIdPrefix", group)
    )


def stop_query(query: "StreamingQuery") -> bool:
    """Stop a query at once.

    Returns:
        False if it does not stop. A query that waits for an unresponsive Kafka cannot be
        interrupted (KAFKA-1894); it ends with the process.
    """
    from py4j.protocol import Py4JJavaError

    try:
        query.stop()
    except Py4JJavaError as error:
        if "TimeoutException" not in error.java_exception.getClass().getName():
            raise
        return False
    return True


def tried(master: str) -> str:
    """Make a local master retry tasks, unless its retries are set.

    By default it does not, so a killed Python worker would end the job.
    """
    match = LOCAL.fullmatch(master)
    return f"local[{match[1] or 1},{LOCAL_TRIES}]" if match else master


def check_start(settings: Settings, is_spark_certain: bool = True) -> None:
    """Check what would make a starting JVM fail with a stack trace.

    `is_spark_certain`: Spark will be started; otherwise a missing Java is accepted.

    Raises:
        UserError: no Java, no response from a standalone master, or no YARN configuration.
    """
    _check_master(settings.master)
    if is_spark_certain:
        java_executable()


def _check_master(master: str) -> None:
    """Raises UserError."""
    if master == "yarn" and not any(os.environ.get(name) for name in YARN_DIRECTORIES):
        raise UserError(
            "The Spark master yarn requires YARN's configuration.",
            f"Set {' or '.join(YARN_DIRECTORIES)} to its directory.",
        )
    if not master.startswith(STANDALONE):
        return
    reasons = {}
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), MASTER_TIMEOUT_S):
                return
        except (OSError, OverflowError) as error:
            reasons[address] = getattr(error, "strerror", None) or str(error)
    reasons_text = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
    raise UserError(
        f"The Spark master {master} did not respond ({reasons_text}).",
        "Check that it is running, and check --master.",
    )


def _beside(submitted: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """Our configuration without what `spark-submit` sets, except the job's own.

    Jars are added to the submitted ones.
    """
    beside = {
        name: value
        for name, value in ours.items()
        if name not in submitted or name.startswith(SPARK_OF_THE_JOB)
    }
    all_jars = (submitted.get(spark_submit.JARS), ours[spark_submit.JARS])
    return {**beside, spark_submit.JARS: ",".join(filter(None, all_jars))}


def _configuration(settings: Settings, connector: list[Path], is_local: bool) -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties")
    values = {
        DRIVER_OPTIONS: f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        "spark.driver.memory": settings.driver_memory,
        spark_submit.JARS: ",".join(str(jar) for jar in connector),
        "spark.locality.wait": "0s",
        "spark.speculation": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_ARROW_BATCH),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.pollingDelay": POLLING_DELAY,
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stopTimeout": STOP_TIMEOUT,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.ui.enabled": str(settings.spark_ui).lower(),
        "spark.ui.showConsoleProgress": "false",
    }
    address = places.s3_address()
    if address is not None:
        values |= {S3A + "endpoint": address, S3A + "path.style.access": "true"}
    if is_local:
        values["spark.driver.bindAddress"] = LOOPBACK
        values["spark.driver.host"] = LOOPBACK
        values["spark.python.daemon.module"] = WORKER_DAEMON
        if not places.is_remote(settings.checkpoint_dir):
            package = "" if jars.spark_version().startswith("4.0.") else ".checkpointing"
            values["spark.sql.streaming.checkpointFileManagerClass"] = FILE_MANAGER.format(package)
        options = [COMPILE_ONCE, *([VFORK] if sys.platform == "linux" else [])]
        options += class_archives.taking(driver_archive(settings.home))
        values[DRIVER_OPTIONS] += f" {shlex.join(options)}"
    return values


def driver_archive(home: Path) -> Path:
    """The path of the class archive of a local job. Raises UserError."""
    java, shipped = java_executable(), jars.pyspark_jars()
    return class_archives.archive(home, class_archives.DRIVER, java, shipped)


def packages_zip(home: Path) -> Path:
    """Zip the packages that workers import, under their own names."""
    target = home / "packages.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in SHIPPED:
            spec = importlib.util.find_spec(package)
            locations = (spec.submodule_search_locations if spec else None) or []
            for root in map(Path, locations):
                for file in _sources(root, is_top=package == "brokertwin"):
                    inside = Path(*package.split(".")) / file.relative_to(root)
                    archive.write(file, inside)
    return target


def _sources(root: Path, is_top: bool) -> list[Path]:
    """A package's modules and JSON files; only the top level of `brokertwin` itself."""
    files = root.glob("*.py") if is_top else [*root.rglob("*.py"), *root.rglob("*.json")]
    return sorted(file for file in files if "__pycache__" not in file.parts)
