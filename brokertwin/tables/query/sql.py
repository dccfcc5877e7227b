"""SQL over the tables of a state, with DuckDB, in this process.

Queries install and fetch nothing. They can read local files.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.tables import schemas

if TYPE_CHECKING:
    import pyarrow as pa

    from brokertwin.tables.query.reading import Tables

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "TimeZone": "UTC",
}
MESSAGE_LINES = 3
NUMBER = "row_number_"


def run(tables: "Tables", query: str) -> "pa.Table":
    """Run a query; only tables that it names are built.

    Raises:
        UserError: an invalid query, a statement without rows, or duckdb is not installed.
    """
    frames = {
        table.name: tables.arrow(table.name)
        if table.name in _named(query, tables.names)
        else schemas.arrow_schema(table).empty_table()
        for table in tables.schemas.values()
    }
    return _run(frames, query, tables.names)


def matching(tables: "Tables", name: str, where: str) -> list[int]:
    """Return the row numbers of a table that match a condition. Raises UserError as `run`."""
    import pyarrow as pa

    table = tables.arrow(name)
    numbered = table.append_column(NUMBER, pa.array(range(table.num_rows), pa.int64()))
    query = f"select {NUMBER} from {name} where ({where}\n) order by 1"  # may end in a comment
    numbers: list[int] = _run({name: numbered}, query, [name])[NUMBER].to_pylist()
    return numbers


def _run(tables: "Mapping[str, pa.Table]", query: str, names: Sequence[str]) -> "pa.Table":
    need("SQL over the state", "duckdb", "pyarrow")
    import duckdb

    with duckdb.connect(":memory:", config=CONFIG) as connection:
        try:
            for name, table in tables.items():
                connection.register(name, table)
            found = connection.sql(query)
            if found is None:
                raise UserError("The SQL statement is not a query.", "Use a SELECT statement.")
            result: pa.Table = found.to_arrow_table()
        except duckdb.Error as error:
            raise UserError(_message(error), _hint(error, names)) from None
    return result


def _named(query: str, names: Sequence[str]) -> list[str]:
    """Return the tables whose names occur as words in a query."""
    words = set(re.findall(r"\w+", query.lower()))
    return [name for name in names if name in words]


def _message(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "\n".join(lines[:MESSAGE_LINES])


def _hint(error: Exception, names: Sequence[str]) -> str:
    text = str(error)
    if "Table" in text and "does not exist" in text:
        return f"There are {', '.join(names)}."
    return "`brokertwin query` without SQL shows every table with its columns."
