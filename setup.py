"""The packages below each directory that pyproject.toml maps into brokerstream."""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent


def packages() -> list[str]:
    """Name every package: the mapped directories and those found below them."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    mapped: dict[str, str] = pyproject["tool"]["setuptools"]["package-dir"]
    below = {name: find_packages(str(ROOT / directory)) for name, directory in mapped.items()}
    return sorted({*mapped, *(f"{name}.{sub}" for name, subs in below.items() for sub in subs)})


setup(packages=packages())
