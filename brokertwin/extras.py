"""Checks for optional packages, and the message that names the extra to install.

pyproject.toml lists the packages of each extra.
"""

from importlib.util import find_spec

import brokertwin
from brokertwin.errors import UserError

EXTRA_OF = {
    "altair": "report",
    "cryptography": "keystores",
    "duckdb": "query",
    "great_expectations": "checks",
    "jwt": "oauth",
    "mcp": "mcp",
    "pandas": "spark",
    "py4j": "spark",
    "pyarrow": "offsets",
    "pyspark": "spark",
    "vl_convert": "report",
    "xxhash": "spark",
}
"""Module to the extra that installs it."""

SPARK = ("pyspark", "pandas", "pyarrow")
"""Modules that the Spark job needs."""


def need(what: str, *modules: str) -> None:
    """Check that modules of extras are installed, without importing them.

    Args:
        what: the subject of the error message: a command or a function.
        modules: names in `EXTRA_OF`.

    Raises:
        UserError: a module is not installed.
    """
    for module in modules:
        if find_spec(module) is None:
            raise missing(what, module)


def missing(what: str, module: str) -> UserError:
    extra = EXTRA_OF[module]
    return UserError(
        f"{what} needs the package {module}, which the extra '{extra}' installs.",
        f"Install it with: pip install '.[{extra}]' in a clone of the repository, or"
        f" pip install 'brokertwin-{brokertwin.__version__}-py3-none-any.whl[{extra}]'",
    )
