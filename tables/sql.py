"""SQL over the tables of a state, with DuckDB, in this process.

Nothing is installed or fetched for a query; files that a query names are read.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.tables import schemas

if TYPE_CHECKING:
    import pyarrow as pa

    from brokertwin.tables.reading import Tables

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "TimeZone": "UTC",
}
TOLD_LINES = 3
NUMBER = "row_number_"


def run(tables: "Tables", query: str) -> "pa.Table":
    """What a query gives. Only the tables that it names are made.

    Raises:
        UserError: DuckDB does not take it, or it gives no rows; duckdb is not installed.
    """
    given = {
        table.name: tables.arrow(table.name)
        if table.name in _named(query)
        else schemas.arrow_schema(table).empty_table()
        for table in schemas.TABLES
    }
    return _run(given, query)


def matching(tables: "Tables", name: str, where: str) -> list[int]:
    """The numbers of a table's rows of which a condition is true. Raises UserError as `run`."""
    import pyarrow as pa

    table = tables.arrow(name)
    numbered = table.append_column(NUMBER, pa.array(range(table.num_rows), pa.int64()))
    query = f"select {NUMBER} from {name} where ({where}\n) order by 1"  # its end may be a comment
    numbers: list[int] = _run({name: numbered}, query)[NUMBER].to_pylist()
    return numbers


def _run(given: "Mapping[str, pa.Table]", query: str) -> "pa.Table":
    need("SQL over the state", "duckdb", "pyarrow")
    import duckdb

    with duckdb.connect(":memory:", config=CONFIG) as connection:
        try:
            for name, table in given.items():
                connection.register(name, table)
            found = connection.sql(query)
            if found is None:
                raise UserError("The SQL statement is not a query.", "Use a SELECT statement.")
            result: pa.Table = found.to_arrow_table()
        except duckdb.Error as error:
            raise UserError(_told(error), _hint(error)) from None
    return result


def _named(query: str) -> list[str]:
    """The tables of ours whose names stand in a query: as tables, or as something else."""
    words = set(re.findall(r"\w+", query.lower()))
    return [name for name in schemas.BY_NAME if name in words]


def _told(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "\n".join(lines[:TOLD_LINES])


def _hint(error: Exception) -> str:
    text = str(error)
    if "Table" in text and "does not exist" in text:
        return f"There are {', '.join(schemas.BY_NAME)}."
    return "`brokertwin query` without SQL shows every table with its columns."
