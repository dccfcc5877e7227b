"""What `pip install brokertwin` leaves out, and the sentence that says what brings it.

pyproject.toml has the packages of each extra.
"""

from importlib.util import find_spec

from brokertwin.errors import UserError

EXTRA_OF = {
    "altair": "report",
    "cryptography": "keystores",
    "duckdb": "query",
    "great_expectations": "checks",
    "jwt": "oauth",
    "pandas": "spark",
    "py4j": "spark",
    "pyarrow": "offsets",
    "pyspark": "spark",
    "vl_convert": "report",
    "xxhash": "spark",
}
"""Module to the extra that brings it."""

SPARK = ("pyspark", "pandas", "pyarrow")
"""What the job needs."""


def need(what: str, *modules: str) -> None:
    """Check that modules of extras are installed, without importing them.

    Args:
        what: what needs them, as a sentence begins: a command, a function.
        modules: names in `EXTRA_OF`.

    Raises:
        UserError: one is not installed.
    """
    for module in modules:
        if find_spec(module) is None:
            raise missing(what, module)


def missing(what: str, module: str) -> UserError:
    """The error for a module of an extra that is not installed."""
    return UserError(f"{what} needs {module}: pip install 'brokertwin[{EXTRA_OF[module]}]'")
