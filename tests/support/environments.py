"""Virtual environments that hold chosen packages and nothing else, made without a network.

Packages installed here are linked there, with all their requirements. pip installs a wheel
beside it and checks whether something is missing, because it has no index.
"""

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def build_wheel(source: Path, target: Path) -> Path:
    """Build without a network: with the setuptools that is installed."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return next(target.glob("*.whl"))


def environment_with(directory: Path, requirements: Iterable[str]) -> Path:
    """Create an environment with the requirements and their own requirements.

    Args:
        directory: where it goes.
        requirements: as in a wheel's `Requires-Dist`; those of extras are left out.

    Returns:
        Its interpreter.
    """
    venv.create(directory, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(directory)}))
    for found in _required(requirements):
        metadata = Path(str(found._path))  # type: ignore[attr-defined]  # not in an egg's own list
        for name in {metadata.name, *(file.parts[0] for file in found.files or ())}:
            top, there = site / name, metadata.parent / name
            if name not in {"..", "__pycache__"} and there.exists() and not top.exists():
                top.symlink_to(there)
    return directory / "bin" / "python"


def install(python: Path, *what: str, cwd: Path | None = None) -> None:
    """Let pip install something in an environment; nothing is downloaded."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    command += ["--disable-pip-version-check", "--no-index", "--no-build-isolation"]
    command += ["--no-compile", *what]  # most modules are never imported there
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def _required(requirements: Iterable[str]) -> list[Distribution]:
    """The installed distributions that requirements lead to."""
    todo = [Requirement(text) for text in requirements]
    distributions: dict[tuple[str, frozenset[str]], Distribution] = {}
    todo = [one for one in todo if _counts(one, frozenset())]
    while todo:
        wanted = todo.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in distributions:
            continue
        distributions[key] = distribution(wanted.name)
        below = map(Requirement, distributions[key].requires or ())
        todo += [one for one in below if _counts(one, key[1])]
    return list(distributions.values())


def _counts(requirement: Requirement, extras: frozenset[str]) -> bool:
    """Return whether it is required here if these extras are requested."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras})
