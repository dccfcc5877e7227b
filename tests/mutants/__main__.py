"""Breaks each rule of the tables in a copy of its package and runs the test that has to notice.

python -m tests.mutants [WORD…]      those whose rule has a word; without words all
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants import (
    audits,
    brokers,
    cells,
    commits,
    connects,
    consumers,
    conversions,
    deletions,
    directories,
    drawn,
    eligible,
    expiry,
    logs,
    moves,
    observations,
    odd_requests,
    producers,
    regexes,
    rows,
    streams,
    streams_groups,
    table,
    throttles,
    tokens,
    waits,
    writes,
)
from tests.mutants.table import Mutant

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = (
    *table.MUTANTS,
    *commits.MUTANTS,
    *conversions.MUTANTS,
    *deletions.MUTANTS,
    *throttles.MUTANTS,
    *brokers.MUTANTS,
    *cells.MUTANTS,
    *audits.MUTANTS,
    *expiry.MUTANTS,
    *directories.MUTANTS,
    *drawn.MUTANTS,
    *eligible.MUTANTS,
    *connects.MUTANTS,
    *consumers.MUTANTS,
    *moves.MUTANTS,
    *observations.MUTANTS,
    *odd_requests.MUTANTS,
    *producers.MUTANTS,
    *logs.MUTANTS,
    *regexes.MUTANTS,
    *rows.MUTANTS,
    *streams.MUTANTS,
    *streams_groups.MUTANTS,
    *tokens.MUTANTS,
    *waits.MUTANTS,
    *writes.MUTANTS,
)
PACKAGES = ("state", "clients", "sinks", "kafka_io", "streaming", "gateway", "testing", "cli")
CACHES = shutil.ignore_patterns("__pycache__")


def files_with(text: str, package: Path) -> list[Path]:
    """The files of a package that have a text, as often as they have it."""
    found = []
    for file in sorted(package.rglob("*.py")):
        found += [file] * file.read_text(encoding="utf-8").count(text)
    return found


def copy_to(directory: Path, broken: str) -> Path:
    """The project in a directory of its own, as far as the tests of one package need it.

    All packages stand there, so that they are found before those that are installed; the one to be
    broken and the tests are copies. Gives back the copy of the package.
    """
    package = directory / "brokertwin"
    package.mkdir()
    for file in (ROOT / "brokertwin").glob("*.py"):
        (package / file.name).symlink_to(file)
    for name in PACKAGES:
        if name != broken:
            (package / name).symlink_to(ROOT / name)
    for name in ("pyproject.toml", "gateway", "docs", "examples"):
        (directory / name).symlink_to(ROOT / name)
    (directory / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", directory / "tests")
    for folder in (each for each in (ROOT / "tests").iterdir() if each.is_dir()):
        if folder.name in (broken, "support"):
            shutil.copytree(folder, directory / "tests" / folder.name, ignore=CACHES)
        elif folder.name != "__pycache__":
            (directory / "tests" / folder.name).symlink_to(folder)
    return Path(shutil.copytree(ROOT / broken, package / broken, ignore=CACHES))


def outcome(mutant: Mutant, directory: Path) -> int:
    """The exit code of pytest with the rule broken: 1 where a test has noticed."""
    package = copy_to(directory, mutant.package)
    (file,) = files_with(mutant.old, package)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"tests/{mutant.package}/{mutant.caught_by}"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        sys.stderr.write(done.stdout + done.stderr)
    return done.returncode


def main() -> int:
    """Say of each rule whether its test noticed; 1 where one did not."""
    words = sys.argv[1:]
    wanted = [m for m in MUTANTS if not words or any(word in m.rule for word in words)]
    missed = 0
    for mutant in wanted:
        with tempfile.TemporaryDirectory() as directory:
            is_found = outcome(mutant, Path(directory)) == 1
        missed += not is_found
        sys.stdout.write(f"{'found' if is_found else 'NOT FOUND':<10} {mutant.rule}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(wanted) - missed} of {len(wanted)} found\n")
    return 1 if missed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
