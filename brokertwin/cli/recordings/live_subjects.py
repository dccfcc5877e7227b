"""`explain --live`: a subject's current rows and its findings, from the topics of a live audit."""

from typing import TYPE_CHECKING, Any

from brokertwin.cli.output import show_json, show_table
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.recordings.explain.story import TimelineEntry
    from brokertwin.streaming.live.read_back import Row
    from brokertwin.streaming.live.tables import EntityTable

BATCH, TIME = "batch_", "_ms"
"""Beginning of the columns with a producer's batches; end of the columns with times."""


def show_rows(
    client: "ClientProperties", prefix: str, kind: str, key: str, as_json: bool
) -> "list[TimelineEntry]":
    """Print the current rows of a subject; return its findings as entries of a timeline.

    With `as_json`, findings are printed, too, as the topic has them, and none is returned.

    Raises:
        UserError: the topics do not exist, or have nothing about the subject.
    """
    from brokertwin.streaming.live import read_back
    from brokertwin.streaming.live.tables import BY_NAME

    if kind not in read_back.SUBJECTS:
        raise UserError(f"A live audit has no rows of a {kind}.", "Leave out --live.")
    found = read_back.subject(client, prefix, kind, key)
    if not found.findings and not any(found.rows.values()):
        raise UserError(
            f"The topics {prefix}.… have no {kind} {key}.",
            "Check --live and the id. Rows without requests for a long time are deleted; the last"
            " exchanges may still wait for later lines (`live --available-now`).",
        )
    for table, rows in found.rows.items():
        if as_json:
            for row in rows:
                show_json({"kind": table, **row})
        elif rows:
            shown = [_shown(BY_NAME[table], row) for row in rows]
            show_table(list(shown[0]), [list(row.values()) for row in shown], table)
    if as_json:
        for finding in found.findings:
            show_json(finding)
        return []
    explained: set[str] = set()
    return [_entry(finding, explained) for finding in found.findings]


def _shown(table: "EntityTable", row: "Row") -> dict[str, Any]:
    """A row in the table's order, with times in UTC and its batches as one column."""
    from brokertwin.recordings.history.words import moment

    shown: dict[str, Any] = {}
    for name in ("cluster", *table.columns):
        value = row.get(name)
        if name.startswith(BATCH):
            continue
        if name.endswith(TIME) and name != "timeout_ms":
            shown[name.removesuffix(TIME)] = None if value is None else moment(value)
        else:
            shown[name] = value
    batches = [value for name, value in row.items() if name.startswith(BATCH) and value]
    if batches:
        shown["batches"] = " ".join(
            f"{each['first_sequence']}-{each['last_sequence']}@{each['offset']}" for each in batches
        )
    return shown


def _entry(finding: "Row", explained: set[str]) -> "TimelineEntry":
    """A finding as an entry of a timeline; the rule is added unless its kind is in `explained`."""
    from brokertwin.recordings.explain import error_pages
    from brokertwin.recordings.explain.story import NO_VERSION, TimelineEntry, TimelineError
    from brokertwin.recordings.history.words import moment

    day = moment(finding["to"]).partition(" ")[0]
    code = error_pages.code_of(finding["error"]) if finding["error"] else 0
    notes = [f"because  {finding['cause']}"] if finding["cause"] and not code else []
    if not code and finding["kind"] not in explained:
        explained.add(finding["kind"])
        notes.append(f"rule     {finding['rule']} [{finding['source']}]")
        notes.append(f"do       {finding['do']}")
    return TimelineEntry(
        id=finding["evidence"][-1]["place"],
        time=int(finding["to"]),
        client=", ".join(finding["clients"]),
        connection=f"{day}  cluster {finding['cluster']}",
        api=f"{finding['severity']} {finding['kind']}",
        version=NO_VERSION,
        said=finding["what"],
        notes=notes,
        refused=[TimelineError(code, finding["cause"])] if code else [],
    )
