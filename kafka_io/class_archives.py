"""Archives of Java classes: what one JVM has loaded and verified, for others to begin with.

Kafka and Spark load thousands of classes from their jars before they do anything: about half of
the processor time of a start. Dynamic class data sharing (JEP 350) keeps them in a file that a JVM
with the same class path maps. One that finds an archive of another Java, or of other jars, starts
without it.

    <home>/jars/broker-<key>.jsa    of the embedded broker
    <home>/jars/driver-<key>.jsa    of Spark's driver
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BROKER = "broker"
DRIVER = "driver"
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""A JVM would say of each class why it is left out, and of an archive why it is not taken."""


def archive(home: Path, name: str, java: str, class_path: Path) -> Path:
    """Where the archive of a kind of JVM lies, or would.

    Args:
        home: the directory of `Settings.home`.
        name: BROKER or DRIVER.
        java: the path of the executable.
        class_path: the directory of its jars; others, or in another place, are another archive.
    """
    executable = Path(java).resolve()
    found = sorted((jar.name, jar.stat().st_size) for jar in class_path.glob("*.jar"))
    facts = (executable, executable.stat().st_mtime_ns, class_path.resolve(), found)
    key = hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:12]
    return home / "jars" / f"{name}-{key}.jsa"


def taking(file: Path) -> list[str]:
    """The options of a JVM that begins with an archive; none where it is not there."""
    return [f"-XX:SharedArchiveFile={file}", *SILENT] if file.is_file() else []


@contextmanager
def made(file: Path) -> Iterator[list[str]]:
    """The options of a JVM that makes an archive when it ends, which has to be inside.

    The archive is there whole or not at all, and those that the same kind of JVM had before are
    gone.
    """
    fresh = file.with_name(f".{file.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        yield [f"-XX:ArchiveClassesAtExit={fresh}", *SILENT]
        if fresh.is_file():
            for former in file.parent.glob(f"{file.name.partition('-')[0]}-*.jsa"):
                former.unlink()
            fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
