"""A directory that serves Ivy as the mirror: modules of one jar each, and nothing else."""

from collections.abc import Iterable
from pathlib import Path

from brokertwin.kafka_io.jars import JarSet


def modules_of(jar_set: JarSet) -> list[tuple[str, str, str]]:
    """Artifact requested by a set: organisation, module, revision."""
    return [(jar_set.organisation, jar_set.module, jar_set.revision), *jar_set.also]


def mirror(directory: Path, modules: Iterable[tuple[str, str, str]] = ()) -> Path:
    """Create a mirror.

    `directory`: where it goes.

    Returns:
        The Ivy settings file that names it.
    """
    directory.mkdir(exist_ok=True)
    for organisation, module, revision in modules:
        (directory / f"{module}-{revision}.jar").write_bytes(b"PK")
        (directory / f"{module}.xml").write_text(
            f'<ivy-module version="2.0"><info organisation="{organisation}" module="{module}"'
            f' revision="{revision}"/><configurations><conf name="default"/></configurations>'
            f'<publications><artifact name="{module}" type="jar" conf="default"/>'
            "</publications></ivy-module>"
        )
    settings = directory / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers><filesystem name="mirror">'
        f'<ivy pattern="{directory}/[module].xml"/>'
        f'<artifact pattern="{directory}/[artifact]-[revision].[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    return settings
