"""mermaid's script as a file of the site, so that its diagrams are drawn without a network.

It comes from npm at the first build, one version with one checksum, and stays in `build/`. Where
there is no npm the pages ask for it where the theme does.
"""

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "mermaid@11.12.0"
SHA256 = "07e37dfa97b337ccc85365d57eddf99b9706f09db3b59b260d0333b23b343c4b"
"""Of `package/dist/mermaid.min.js`."""

TIMEOUT_S = 120


def script(cache: Path) -> bytes | None:
    """The script, from `cache` or from npm; None where neither has it."""
    file = cache / f"{PACKAGE.replace('@', '-')}.min.js"
    if not file.is_file():
        found = _fetched()
        if found is None:
            return None
        cache.mkdir(parents=True, exist_ok=True)
        file.write_bytes(found)
    return file.read_bytes()


def _fetched() -> bytes | None:
    npm = shutil.which("npm")
    if npm is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        words = [npm, "pack", PACKAGE, "--silent", "--pack-destination", directory]
        try:
            done = subprocess.run(words, capture_output=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return None
        packed = list(Path(directory).glob("*.tgz"))
        if done.returncode or not packed:
            return None
        with tarfile.open(fileobj=io.BytesIO(packed[0].read_bytes())) as archive:
            member = archive.extractfile("package/dist/mermaid.min.js")
            content = member.read() if member is not None else b""
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ValueError(f"{PACKAGE} from npm is not the one that was pinned")
    return content
