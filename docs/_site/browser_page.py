"""The page with Pyodide as a folder of the site: nothing is loaded from elsewhere.

Pyodide comes from npm and the wheels from PyPI at the first build, each with its version and
checksum, and stay in `build/`. Where there is no npm the site has no such page.
"""

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

PYODIDE = "pyodide@314.0.7"
PYODIDE_SHA256 = "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0"
"""Checksum of the package that npm packs."""

WHEELS = {
    "msgspec==0.22.0": "a66b1766311e42371e509c996c3933b161c7ae0eabdf361af5316dec197e1022",
    "tzdata==2026.6": "0a10eec6e13ef16b627fabed9a5f2ba61a62b1c67f327305f4e7e412a70b4aec",
}
"""Wheels by requirement, with their checksums."""

PLATFORM, PYTHON = "pyemscripten_2026_0_wasm32", "3.14"
NEEDED = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
NEEDED += ("pyodide-lock.json",)
ASSETS = ("page.css", "model.js", "lanes.js", "incident.js", "playground.js", "worker.js")
ROOMS = ("protocol", "state", "recordings", "tables", "page", "sinks", "kafka_io")
TIMEOUT_S = 300
DATA = (".py", ".json", ".js", ".css", ".html")


def files(root: Path, cache: Path) -> dict[str, bytes] | None:
    """The files of the page by their names in its folder; None where npm is missing.

    Args:
        root: the repository.
        cache: a folder for downloads.

    Raises:
        ValueError: a download does not have its pinned checksum.
    """
    fetched = _fetched(cache)
    if fetched is None:
        return None
    pyodide, wheels = fetched
    assets = root / "brokertwin" / "page" / "assets"
    made = {name: (assets / name).read_bytes() for name in ASSETS}
    made["index.html"] = (assets / "site.html").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(pyodide.read_bytes())) as archive:
        for name in NEEDED:
            member = archive.extractfile(f"package/{name}")
            assert member is not None, name
            made[f"pyodide/{name}"] = member.read()
    for wheel in wheels:
        made[f"python/{wheel.name}"] = wheel.read_bytes()
    index = {"wheels": [each.name for each in wheels], "sources": "brokertwin.zip"}
    made["python/index.json"] = json.dumps(index).encode()
    made["python/brokertwin.zip"] = _sources(root)
    return made


def _fetched(cache: Path) -> tuple[Path, list[Path]] | None:
    npm = shutil.which("npm")
    if npm is None:
        return None
    cache.mkdir(parents=True, exist_ok=True)
    pack = [npm, "pack", PYODIDE, "--silent", "--pack-destination"]
    pyodide = pinned(cache, PYODIDE, PYODIDE_SHA256, pack)
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    download += ["--platform", PLATFORM, "--python-version", PYTHON]
    wheels = [
        pinned(cache, requirement, checksum, [*download, requirement, "-d"])
        for requirement, checksum in WHEELS.items()
    ]
    return pyodide, wheels


def pinned(cache: Path, what: str, checksum: str, command: list[str]) -> Path:
    """The file with a checksum in the cache; the command fetches it into the folder at its end."""
    for file in sorted(cache.iterdir()):
        if file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == checksum:
            return file
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([*command, directory], check=True, timeout=TIMEOUT_S, capture_output=True)
        (found,) = Path(directory).iterdir()
        if hashlib.sha256(found.read_bytes()).hexdigest() != checksum:
            raise ValueError(f"{what} is not the file that was pinned")
        return Path(shutil.copy(found, cache))


def _sources(root: Path) -> bytes:
    """The packages that the page needs, as a zip file with fixed times."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in _of_packages(root / "brokertwin"):
            name = file.relative_to(root).as_posix()
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            archive.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _of_packages(package: Path) -> Iterator[Path]:
    yield from sorted(package.glob("*.py"))
    for room in ROOMS:
        for file in sorted((package / room).rglob("*")):
            if file.suffix in DATA and "__pycache__" not in file.parts and file.is_file():
                yield file
