"""Broker checkpoint files, written from a job's state.

They are <directory>/<cell>/broker-<id>/replication-offset-checkpoint and similar files. A broker
with several log directories has a folder for each (`state/replication/disk.py`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.replication import disk


class BrokerFile(NamedTuple):
    """A relative path and the text of the file."""

    path: Path
    text: str


def broker_files(cells: Mapping[str, Mapping[str, bytes]]) -> Iterator[BrokerFile]:
    """Yield the files of all brokers as of the newest event of each cell."""
    for name in sorted(cells):
        settings = CellSettings(name=name, cluster=name)
        cell = Cell(settings, cells[name])
        keys = [key.split("/") for key in cell.tables.logs.keys("")]
        for broker in sorted({int(machine) for machine, kind, *_ in keys if kind == "log"}):
            machine = Broker(broker, cell.tables, settings, cell.meta.now)
            for path, text in disk.files(machine).items():
                yield BrokerFile(Path(name, f"broker-{broker}", path.lstrip("/")), text)


def write(directory: Path, cells: Mapping[str, Mapping[str, bytes]]) -> int:
    """Write the files below a directory; returns their number."""
    count = 0
    for file in broker_files(cells):
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
        count += 1
    return count
