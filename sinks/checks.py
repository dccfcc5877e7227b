"""Checks of what a sink has written, with great-expectations: off the hot path, on request.

A check reads a snapshot of committed offsets (`offsets_snapshot`) and says which rows cannot be
right. Kafka itself takes some of them (a negative offset), so a finding is a hint, not a fault.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq

from brokerstream.extras import need
from brokerstream.sinks import offsets_snapshot

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

KEY = ["cluster", "group", "topic", "partition"]
EXAMPLES_MAX = 5
TOPIC_LENGTH_MAX = 249
NONE = -1


class Finding(NamedTuple):
    """An expectation that is not met.

    Attributes:
        expectation: its type in great-expectations, such as `expect_column_values_to_be_between`.
        columns: the columns that it looks at; empty for the table.
        unexpected: how many rows do not meet it; 0 where rows are not what it counts.
        examples: some of the values, as text.
    """

    expectation: str
    columns: list[str]
    unexpected: int
    examples: list[str]


class Checked(NamedTuple):
    """The result of a check: how many expectations there were, and which are not met."""

    expectations: int
    findings: list[Finding]

    @property
    def is_good(self) -> bool:
        """Whether every expectation is met."""
        return not self.findings


def check_snapshot(manifest: Path) -> Checked:
    """Checks the snapshot whose manifest is at `manifest`.

    Raises SnapshotError where the file is not what its manifest says, UserError where
    great-expectations is not installed. Takes seconds, most of them for loading it.
    """
    need("check_snapshot", "great_expectations", "pandas")
    described = offsets_snapshot.verify(manifest)
    table = pq.read_table(manifest.with_name(described.file))
    context = _context()
    source = context.data_sources.add_pandas("snapshots")
    batches = source.add_dataframe_asset("offsets").add_batch_definition_whole_dataframe("all")
    batch = batches.get_batch({"dataframe": table.to_pandas()})
    suite = snapshot_suite(described.row_count)
    result = batch.validate(suite)
    return Checked(
        len(suite.expectations), [_finding(each) for each in result.results if not each.success]
    )


def snapshot_suite(row_count: int) -> "ExpectationSuite":
    """What holds of every snapshot, and the number of its rows."""
    import great_expectations as gx

    expect = import_module("great_expectations.expectations")
    names = offsets_snapshot.SCHEMA.names
    least = {"partition": 0, "offset": 0, "leader_epoch": NONE, "commit_timestamp": 0}
    return gx.ExpectationSuite(
        name="committed offsets",
        expectations=[
            expect.ExpectTableRowCountToEqual(value=row_count),
            expect.ExpectTableColumnsToMatchOrderedList(column_list=names),
            expect.ExpectCompoundColumnsToBeUnique(column_list=KEY),
            *(expect.ExpectColumnValuesToNotBeNull(column=name) for name in names),
            *(
                expect.ExpectColumnValuesToBeBetween(column=name, min_value=value)
                for name, value in least.items()
            ),
            expect.ExpectColumnValuesToBeBetween(column="expire_timestamp", min_value=NONE),
            expect.ExpectColumnValueLengthsToBeBetween(
                column="topic", min_value=1, max_value=TOPIC_LENGTH_MAX
            ),
        ],
    )


def _context() -> Any:
    """A context in memory that tells nobody and shows no progress bars."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _finding(result: Any) -> Finding:
    settings = result.expectation_config.kwargs
    columns = settings.get("column_list") or [settings.get("column")]
    found = result.result
    return Finding(
        expectation=result.expectation_config.type,
        columns=[column for column in columns if column is not None],
        unexpected=int(found.get("unexpected_count") or 0),
        examples=[str(value) for value in found.get("partial_unexpected_list") or []][
            :EXAMPLES_MAX
        ],
    )
