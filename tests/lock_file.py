"""`python -m tests.lock_file`: write .ci/requirements.lock, the tested set with the files' hashes.

What pip would install of `.[all]` with .ci/constraints.txt on the machine that it runs on, Linux
with CPython 3.11: `pip install --require-hashes -r .ci/requirements.lock` takes those files and no
others.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.sources import ROOT

LOCK = ROOT / ".ci/requirements.lock"
HEAD = """\
# Of brokertwin[all], for Linux on x86-64 with CPython 3.11; written by `make lock`.
# pip install --require-hashes -r .ci/requirements.lock
"""


def text(report: dict[str, list[dict[str, dict[str, object]]]]) -> str:
    """The lock file of what `pip install --report` says."""
    lines = []
    for each in report["install"]:
        metadata, download = each["metadata"], each["download_info"]
        archive = download.get("archive_info")
        if not isinstance(archive, dict) or metadata["name"] == "brokertwin":
            continue
        pinned = f"{metadata['name']}=={metadata['version']}"
        lines.append(f"{pinned} --hash=sha256:{archive['hashes']['sha256']}\n")
    return HEAD + "".join(sorted(lines, key=str.lower))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        wanted = ["-c", str(ROOT / ".ci/constraints.txt"), f"{ROOT}[all]"]
        send = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"]
        subprocess.run([*send, "--quiet", "--report", str(report), *wanted], check=True)
        LOCK.write_text(text(json.loads(report.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
