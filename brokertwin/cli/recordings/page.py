"""`brokertwin page`: an incident over time, as one HTML file without server and network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.files import check_new, writing
from brokertwin.cli.options import BrokerConfig, Force
from brokertwin.cli.output import say, warn
from brokertwin.cli.recordings.sources import Where, source_of, with_source
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.recordings.audit.finding import AuditFinding
    from brokertwin.recordings.audit.history import History
    from brokertwin.recordings.audit.reading import ReadHistory

Out = Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The HTML file to write.")]


@with_source
def command(
    where: Where,
    out: Out = Path("incident.html"),
    force: Force = False,
    broker_config: BrokerConfig = None,
) -> None:
    """Write a page that shows recorded traffic over time.

    The page has lanes for groups, transactions, clients, partitions, brokers, producers and fetch
    sessions, with the findings of `brokertwin audit` as marks. Select a moment to see the state of
    an entity then, and the request and response behind a mark. It opens in a browser without a
    server and loads nothing. Press `?` in it for the keys.
    """
    from brokertwin.recordings.audit.finders import findings
    from brokertwin.recordings.history.holes import sentences

    check_new(out, force)
    done = read(where, broker_config)
    for broken in done.broken[:3]:
        warn(f"{broken.place}: {broken.reason}")
    for sentence in sentences(done.holes):
        warn(sentence)
    if done.history.undecoded.said:
        warn(done.history.undecoded.said)
    found = findings(done.history)
    write(out, where, done.history, found)
    say(f"{counted(len(found), 'finding')}; wrote {out}")


def read(where: Where, broker_config: Path | None) -> "ReadHistory":
    """Read a recording with all its exchanges. Raises UserError as `read_from`."""
    from brokertwin.cli.recordings.audit import broker_facts
    from brokertwin.recordings.audit.reading import read_from
    from brokertwin.recordings.formats.documents import Texts

    with source_of(where, Texts.REQUEST_LOGS) as source:
        return read_from(source, where.headers(), broker_facts(broker_config))


def write(out: Path, where: Where, history: "History", findings: "list[AuditFinding]") -> None:
    """Write the page of a recording. Raises UserError if the file cannot be written."""
    from brokertwin.page.assembly import incident_page
    from brokertwin.page.incident import document

    files = [Path(name).name for name in where.names]
    text = incident_page(document(history, findings, files))
    with writing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
