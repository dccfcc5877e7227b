"""Archives of Java classes that make JVMs start faster.

Loading Kafka's or Spark's thousands of classes takes about half of the processor time of a start.
Dynamic class data sharing (JEP 350) stores them in a file that a JVM with the same class path maps.
A JVM ignores an archive of another Java or of other jars.

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
"""Suppress messages about omitted classes and unusable archives."""


def archive(home: Path, name: str, java: str, class_path: Path) -> Path:
    """Return the path of the archive of a kind of JVM; it may not exist.

    Args:
        home: the directory of `Settings.home`.
        name: BROKER or DRIVER.
        java: path of the executable.
        class_path: directory of its jars; other jars or another directory have another archive.
    """
    executable = Path(java).resolve()
    jars = sorted((jar.name, jar.stat().st_size) for jar in class_path.glob("*.jar"))
    facts = (executable, executable.stat().st_mtime_ns, class_path.resolve(), jars)
    key = hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:12]
    return home / "jars" / f"{name}-{key}.jsa"


def taking(file: Path) -> list[str]:
    """Return the options of a JVM that uses an archive; none if it does not exist."""
    return [f"-XX:SharedArchiveFile={file}", *SILENT] if file.is_file() else []


@contextmanager
def made(file: Path) -> Iterator[list[str]]:
    """Provide the options of a JVM that writes an archive when it ends inside the context.

    The archive is created atomically. Older archives of the same kind are deleted.
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
