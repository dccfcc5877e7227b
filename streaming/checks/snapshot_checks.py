"""Checks of a job's output with great-expectations, on request.

Suites have great-expectations' own form; `suites.py` has the default ones. A finding is a hint, not
necessarily an error: Kafka accepts some unexpected values, such as negative offsets.
"""

import importlib.util
import json
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow.parquet as pq

from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.sinks import offsets_snapshot, snapshot_store
from brokertwin.sinks.snapshot_store import Judge
from brokertwin.streaming.checks import data_docs, suites
from brokertwin.streaming.checks.suites import Document

if TYPE_CHECKING:
    import pandas as pd

KEY = ["cluster", "group", "topic", "partition"]
EXAMPLES_MAX = 5
OF_COLUMNS = ("expect_table_columns_to_match_ordered_list", "expect_column_to_exist")
"""Expectations that a column exists."""
DEFAULT = "default"
"""Name of the default suite, instead of a file."""

_ONE_AT_A_TIME = threading.Lock()
"""great-expectations has one context per process."""


class UnmetExpectation(NamedTuple):
    """An unmet expectation.

    Attributes:
        expectation: type in great-expectations, such as `expect_column_values_to_be_between`.
        columns: its columns; empty for expectations of the table.
        unexpected: number of unexpected rows; 0 if the expectation does not count rows.
        examples: some unexpected values as text, or the reason of a missing column.
        severity: critical, warning or info.
    """

    expectation: str
    columns: list[str]
    unexpected: int
    examples: list[str]
    severity: str = "critical"


class Checked(NamedTuple):
    """Result of a check: number of expectations, unmet ones, and number of rows.

    `html` is great-expectations' page (Data Docs), if requested.
    """

    expectations: int
    findings: list[UnmetExpectation]
    rows: int = 0
    html: str = ""

    @property
    def is_good(self) -> bool:
        return not self.findings

    @property
    def critical(self) -> list[str]:
        return [text_of(each) for each in self.findings if each.severity == "critical"]


def text_of(finding: UnmetExpectation) -> str:
    what = " ".join((finding.expectation, ", ".join(finding.columns))).strip()
    if not finding.unexpected:
        return f"{what}: {finding.examples[0]}" if finding.examples else f"{what} is not met"
    rows = "1 row" if finding.unexpected == 1 else f"{finding.unexpected:,} rows"
    return f"{what}: {rows}, such as {', '.join(finding.examples)}"


def suite_named(option: str, named: str) -> Document | None:
    """Read the suite named by a setting: from a file, or None for the default.

    Args:
        option: option that names it, for the error message.
        named: `DEFAULT`, or a path.

    Raises:
        UserError: great-expectations is not installed, or the file is not a valid suite.
    """
    need(option, "great_expectations", "pandas", "pyarrow")
    if named == DEFAULT:
        return None
    document = read_suite(Path(named))
    _context()
    _suite(document)
    return document


def gate(document: Document | None) -> Judge:
    """Create a judge that rejects snapshots with findings of severity critical.

    Args:
        document: the suite; None for the default.
    """

    def judge(directory: Path) -> list[str]:
        batch = snapshot_store.manifest(directory).batch
        return check_snapshot(offsets_snapshot.manifest_path(directory, batch), document).critical

    return judge


def check_snapshot(manifest: Path, suite: Document | None = None) -> Checked:
    """Check the snapshot of offsets with a manifest.

    Raises SnapshotError if the file does not match its manifest, UserError if great-expectations is
    not installed. Takes some seconds, mostly for loading it.
    """
    described = offsets_snapshot.verify(manifest)
    table = pq.read_table(manifest.with_name(described.file))
    return check(table.to_pandas(), suite or snapshot_suite(described.row_count))


def frame_of(rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> "pd.DataFrame":
    """Convert rows to a frame; integers stay integers despite missing values."""
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=list(columns), dtype=object)
    for name in frame.columns:
        values = frame[name].dropna()
        if len(values) and all(type(value) is int for value in values):
            frame[name] = frame[name].astype("Int64")
    return frame


def check(frame: "pd.DataFrame", document: Document, docs: bool = False) -> Checked:
    """Check a frame against a suite.

    Raises:
        UserError: great-expectations is not installed, or the suite is invalid.
    """
    need("`brokertwin check`", "great_expectations", "pandas")
    with _ONE_AT_A_TIME:
        return _check(frame, document, docs)


def _check(frame: "pd.DataFrame", document: Document, docs: bool) -> Checked:
    context = _context()
    source = context.data_sources.add_pandas("brokertwin")
    batches = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    batch = batches.get_batch({"dataframe": frame})
    suite = _suite(document)
    result = batch.validate(suite)
    findings = [_finding(each, frame.columns) for each in result.results if not each.success]
    html = _page(result) if docs else ""
    return Checked(len(suite.expectations), findings, len(frame), html)


def snapshot_suite(row_count: int | None = None) -> Document:
    """Return the suite of every snapshot of offsets, optionally with its number of rows."""
    expect, between = suites.expect, suites.between
    names = offsets_snapshot.SCHEMA.names
    least = {"partition": 0, "offset": 0, "leader_epoch": -1, "commit_timestamp": 0}
    expectations = [
        suites.columns(*names),
        expect("compound_columns_to_be_unique", column_list=KEY),
        *suites.known(*names),
        *(between(name, value) for name, value in least.items()),
        between("expire_timestamp", suites.NONE),
        suites.topic_length(),
    ]
    if row_count is not None:
        expectations.append(expect("table_row_count_to_equal", value=row_count))
    return {"name": "snapshot", "expectations": expectations}


def read_suite(path: Path) -> Document:
    """Read a suite in great-expectations' form, as JSON or YAML.

    Raises:
        UserError: the file cannot be read or is not a suite.
    """
    need("A suite of your own", "great_expectations")
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if path.suffix == ".json" else YAML(typ="safe").load(text)
    except OSError as error:
        raise UserError(f"Cannot read the suite {path}: {error.strerror}.") from None
    except (ValueError, YAMLError) as error:
        raise UserError(f"Cannot read the suite {path}: {error}.") from None
    if not isinstance(document, dict) or not isinstance(document.get("expectations"), list):
        raise UserError(
            f"{path} is not a great-expectations suite.",
            "It needs a `name` and a list `expectations`, each with `type` and `kwargs`.",
        )
    return {
        "name": str(document.get("name") or path.stem),
        "expectations": document["expectations"],
    }


def _suite(document: Document) -> Any:
    """Create the suite; reject unknown expectations, which great-expectations ignores."""
    import great_expectations as gx
    from great_expectations.exceptions.exceptions import GreatExpectationsError
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.registry import get_expectation_impl

    suite = gx.ExpectationSuite(name=document["name"])
    for each in document["expectations"]:
        try:
            get_expectation_impl(each["type"])
            made = ExpectationConfiguration(**each).to_domain_obj()
            suite.expectations.append(made)
        except (GreatExpectationsError, KeyError, TypeError, ValueError) as error:
            kind = each.get("type", each) if isinstance(each, dict) else each
            raise UserError(
                f"Invalid expectation {kind} in the suite {document['name']}: {error}."
            ) from None
    return suite


def _context() -> Any:
    """Create a context in memory without analytics and progress bars."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    if importlib.util.find_spec("grpc") is None:
        # Without grpc it cannot be imported; in `python -c` PySpark 4.1 ends the process instead.
        sys.modules.setdefault("pyspark.sql.connect.utils", cast(Any, None))
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _page(result: Any) -> str:
    renderer = import_module("great_expectations.render.renderer")
    view = import_module("great_expectations.render.view")
    rendered = renderer.ValidationResultsPageRenderer().render(result)
    page: str = view.DefaultJinjaPageView().render(rendered)
    return data_docs.self_contained(page)


def _text(value: Any) -> str:
    """Format an unexpected value: NumPy's numbers as numbers, rows by column."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_text, value))})"
    return str(value.item() if hasattr(value, "item") else value)


def _finding(result: Any, there: Iterable[str]) -> UnmetExpectation:
    """Convert an unmet expectation; `there` are the columns of the rows."""
    config = result.expectation_config
    named = [config.kwargs.get(key) for key in ("column", "column_A", "column_B")]
    columns = [name for name in [*(config.kwargs.get("column_list") or ()), *named] if name]
    details = result.result
    values = [_text(value) for value in details.get("partial_unexpected_list") or ()][:EXAMPLES_MAX]
    missing = [name for name in columns if name not in set(there)]
    if missing and config.type not in OF_COLUMNS:
        values = [f"there is no column {', '.join(missing)}"]
    return UnmetExpectation(
        expectation=config.type,
        columns=columns,
        unexpected=int(details.get("unexpected_count") or 0),
        examples=values,
        severity=str(getattr(config.severity, "value", "critical")),
    )
