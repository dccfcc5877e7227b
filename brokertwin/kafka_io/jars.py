"""Jars that are not on PyPI: Spark's Kafka connector and Apache Kafka.

PySpark's Ivy downloads them once into a directory; later runs only check it. A Spark session uses
local files and resolves nothing.
"""

import importlib.metadata
import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.kafka_io.java import java_executable

KAFKA_VERSION = "4.3.1"
SCALA_VERSION = "2.13"
LOG4J_VERSION = "2.25.4"  # the dependency of this Kafka
BINDING = ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION)
AWS = "software.amazon"
AWS_SDK, AWS_SDK_VERSION = f"{AWS}.awssdk", "2.35.4"  # of Hadoop 3.5.0
DESCRIPTOR = "ivy.xml"
TAIL_LINES = 15
FETCHED = re.compile(
    r"\s*\[SUCCESSFUL \] [^#]+#[^;]+;(?P<version>[^!]+)!(?P<name>[^(]+)\.jar.* \((?P<ms>\d+)ms\)"
)
"""Ivy's line about a downloaded jar."""

FOUND = re.compile(r"\s*found (\S+#[^;]+);\S+ in ")
"""Ivy's line about a module, one for each version, before the first jar."""


@dataclass(frozen=True)
class JarSet:
    """One module with all its dependencies, in its own directory.

    Attributes:
        organisation: Maven group id.
        module: Maven artifact id.
        revision: version.
        for_spark: whether it runs inside Spark, so jars that PySpark ships are omitted.
        also: further modules, each (organisation, module, revision).
        is_alone: whether the dependencies of the first module are omitted.
    """

    organisation: str
    module: str
    revision: str
    for_spark: bool = False
    also: tuple[tuple[str, str, str], ...] = ()
    is_alone: bool = False

    @property
    def directory(self) -> str:
        return f"{self.module}-{self.revision}"


def kafka_jars() -> JarSet:
    """Apache Kafka's broker, with the logging binding of its release."""
    return JarSet("org.apache.kafka", f"kafka_{SCALA_VERSION}", KAFKA_VERSION, also=(BINDING,))


def tools_jars() -> JarSet:
    """Apache Kafka's command-line tools."""
    return JarSet("org.apache.kafka", "kafka-tools", KAFKA_VERSION, also=(BINDING,))


def connector_jars() -> JarSet:
    """Spark's Kafka connector in the installed PySpark's version."""
    module = f"spark-sql-kafka-0-10_{SCALA_VERSION}"
    return JarSet("org.apache.spark", module, spark_version(), for_spark=True)


def s3_jars() -> JarSet:
    """Hadoop's S3A in the version of PySpark's Hadoop, without AWS's bundle of 600 MB."""
    (hadoop,) = (jar.stem for jar in pyspark_jars().glob("hadoop-client-api-*.jar"))
    return JarSet(
        "org.apache.hadoop",
        "hadoop-aws",
        hadoop.rpartition("-")[2],
        for_spark=True,
        also=(
            *((AWS_SDK, module, AWS_SDK_VERSION) for module in ("s3-transfer-manager", "sts")),
            (f"{AWS}.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
            ("org.wildfly.openssl", "wildfly-openssl", "2.2.5.Final"),
        ),
        is_alone=True,
    )


def spark_version() -> str:
    return importlib.metadata.version("pyspark")


def fetch(
    jar_set: JarSet,
    home: Path,
    ivy_settings: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    seen: Callable[[int, int], None] = lambda _jars, _modules: None,
) -> list[Path]:
    """Return the jars of a set; download them if they are missing.

    Args:
        jar_set: the set.
        home: the directory of `Settings.home`; the jars are in `jars/` below it.
        ivy_settings: an Ivy settings file, for a mirror; default: Maven Central.
        say: called before a download, and for each downloaded jar.
        seen: called with the numbers of downloaded jars and known modules.

    Returns:
        The jar files, sorted by name.

    Raises:
        UserError: no Java, or the download failed.
        ModuleNotFoundError: the jars are missing, and so is PySpark with its Ivy.
    """
    target = home / "jars" / jar_set.directory
    if not _complete(target, jar_set):
        shipped, java = pyspark_jars(), java_executable()
        target.parent.mkdir(parents=True, exist_ok=True)
        say(f"downloading {jar_set.module} {jar_set.revision}")
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=target.parent) as scratch:
            jars = _retrieve(jar_set, Path(scratch), java, shipped, ivy_settings, _Watch(say, seen))
            if target.is_dir() and not _complete(target, jar_set):
                target.rename(Path(scratch) / "outdated")
            _move(jars, target)
    return sorted(target.glob("*.jar"))


def _complete(target: Path, jar_set: JarSet) -> bool:
    """True if the directory was fetched completely for these modules."""
    descriptor = target / DESCRIPTOR
    return descriptor.is_file() and descriptor.read_text(encoding="utf-8") == _descriptor(jar_set)


def _move(jars: Path, target: Path) -> None:
    """Move a complete directory into place, unless another process was faster."""
    try:
        jars.rename(target)
    except OSError:
        if not target.is_dir():
            raise


class _Watch:
    """Parses Ivy's output and reports progress."""

    def __init__(self, say: Callable[[str], None], seen: Callable[[int, int], None]) -> None:
        self.lines: list[str] = []
        self._say = say
        self._seen = seen
        self._jars = 0
        self._modules: set[str] = set()

    def read(self, line: str) -> None:
        """Process a line of Ivy's output."""
        self.lines.append(line.strip())
        if match := FOUND.match(line):
            self._modules.add(match[1])
        elif fetched := FETCHED.match(line):
            self._jars += 1
            self._say("  {name}-{version}.jar in {ms} ms".format(**fetched.groupdict()))
        else:
            return
        self._seen(self._jars, len(self._modules))


def _retrieve(
    jar_set: JarSet,
    scratch: Path,
    java: str,
    shipped: Path,
    ivy_settings: Path | None,
    watch: _Watch,
) -> Path:
    """Run Ivy in a scratch directory; return the directory with the jars."""
    jars = scratch / "jars"
    jars.mkdir()
    descriptor = jars / DESCRIPTOR
    descriptor.write_text(_descriptor(jar_set), encoding="utf-8")
    ivy = next(iter(sorted(shipped.glob("ivy-*.jar"))))
    command = [java, "-jar", str(ivy), "-cache", str(scratch / "cache")]
    if ivy_settings is not None:
        command += ["-settings", str(ivy_settings)]
    command += ["-ivy", str(descriptor), "-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy_process:
        for line in ivy_process.stdout or ():
            watch.read(line)
    if ivy_process.returncode != 0 or not any(jars.glob("*.jar")):
        tail = "\n".join([line for line in watch.lines if line.strip(":")][-TAIL_LINES:])
        raise UserError(
            f"Could not download the jars of {jar_set.module} {jar_set.revision}.",
            f"Check the network, or set ivy_settings to a mirror. Ivy's output ends with:\n{tail}",
        )
    if jar_set.for_spark:
        _drop_shipped(jars, shipped)
    return jars


def _descriptor(jar_set: JarSet) -> str:
    """Return an Ivy module with the dependencies, without Hadoop, which PySpark has."""
    exclude = '<exclude org="org.apache.hadoop"/>' if jar_set.for_spark else ""
    modules = ((jar_set.organisation, jar_set.module, jar_set.revision), *jar_set.also)
    alone = ' transitive="false"' if jar_set.is_alone else ""
    dependencies = "".join(
        f'<dependency org="{organisation}" name="{module}" rev="{revision}"{is_alone} '
        f'conf="default->default">{"" if is_alone else exclude}</dependency>'
        for (organisation, module, revision), is_alone in zip(
            modules, (alone, *[""] * len(jar_set.also)), strict=True
        )
    )
    return (
        '<ivy-module version="2.0"><info organisation="brokertwin" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>\n"
    )


def pyspark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    return Path(spec.origin).parent / "jars"


def artifact(jar: Path) -> str:
    """Return an artifact's name without version: `slf4j-api` for `slf4j-api-2.0.16.jar`."""
    return re.sub(r"-\d[\w.\-]*$", "", jar.stem)


def _drop_shipped(jars: Path, shipped: Path) -> None:
    """Remove jars that PySpark has in any version, because two versions would conflict."""
    there = {artifact(jar) for jar in shipped.glob("*.jar")}
    for jar in jars.glob("*.jar"):
        if artifact(jar) in there:
            jar.unlink()
