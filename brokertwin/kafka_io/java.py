"""The Java runtime that Spark and the embedded Kafka broker need."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from brokertwin.errors import UserError

MINIMUM_VERSION = 17
NEEDED = (
    f"brokertwin needs a Java {MINIMUM_VERSION} or newer runtime: "
    f"apt-get install openjdk-{MINIMUM_VERSION}-jre-headless"
)


def java_executable() -> str:
    """Find `java` (JAVA_HOME, then PATH) and check its version.

    Returns:
        The path of the executable.

    Raises:
        UserError: there is none, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    candidate = str(Path(home) / "bin" / "java") if home else "java"
    executable = shutil.which(candidate)
    if executable is None or java_version(executable) < MINIMUM_VERSION:
        raise UserError(NEEDED)
    return executable


@cache
def java_version(executable: str) -> int:
    """Return the feature version of a `java`: 17 for 17.0.15, 8 for 1.8.0_292, 0 if unknown."""
    try:
        done = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match else 0
