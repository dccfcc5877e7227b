"""The packages below each directory that pyproject.toml maps into brokerstream."""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent


def directories() -> dict[str, str]:
    """The directory of each package that pyproject.toml maps."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    mapped: dict[str, str] = pyproject["tool"]["setuptools"]["package-dir"]
    return mapped


def packages() -> list[str]:
    """Name every package: the mapped directories and those found below them."""
    mapped = directories()
    below = {name: find_packages(str(ROOT / directory)) for name, directory in mapped.items()}
    return sorted({*mapped, *(f"{name}.{sub}" for name, subs in below.items() for sub in subs)})


if __name__ == "__main__":
    setup(packages=packages())
