"""The project's own Python files."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "state",
    "clients",
    "sinks",
    "kafka_io",
    "streaming",
    "gateway",
    "testing",
    "cli",
    "brokerstream",
)


def python_files(*directories: str) -> list[Path]:
    """Every Python file below the directories, sorted."""
    files = (file for name in directories for file in (ROOT / name).rglob("*.py"))
    return sorted(file for file in files if "__pycache__" not in file.parts)


def name_of(file: Path) -> str:
    """The path within the project; for test ids."""
    return file.relative_to(ROOT).as_posix()
