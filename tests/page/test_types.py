"""The page's scripts keep the types in their comments: TypeScript checks them, nothing is built."""

import subprocess
from pathlib import Path

import pytest

from brokertwin.page.assembly import ASSETS
from tests.support.sources import ROOT

pytestmark = [pytest.mark.node, pytest.mark.site]

TYPESCRIPT = "typescript@5.9.3"
TYPESCRIPT_SHA256 = "10e108c9cf7d5f2879053dff18515fb405abf2ccef63eaaf017d9c571687a1d3"
OPTIONS = (
    *("--allowJs", "--checkJs", "--noEmit", "--strict", "--target", "es2022"),
    *("--module", "es2022", "--moduleResolution", "bundler", "--lib", "es2023,dom,dom.iterable"),
    *("--noImplicitAny", "false", "--useUnknownInCatchVariables", "false"),
)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TypeScript's compiler, which npm fetches at the first use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "_site")
        import browser_page
    target, cache = tmp_path_factory.mktemp("typescript"), ROOT / "build" / "site-scripts"
    cache.mkdir(parents=True, exist_ok=True)
    fetch = ["npm", "pack", TYPESCRIPT, "--silent", "--pack-destination"]
    archive = browser_page.pinned(cache, TYPESCRIPT, TYPESCRIPT_SHA256, fetch)
    # the filters of tarfile need Python 3.11.4
    subprocess.run(["tar", "-xf", archive, "-C", target], check=True)
    return target / "package" / "bin" / "tsc"


def test_the_scripts_keep_their_types(compiler: Path) -> None:
    scripts = sorted(str(each) for each in ASSETS.iterdir() if each.name.endswith(".js"))
    command = ["node", compiler, *OPTIONS, *scripts]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.returncode) == ("", 0)
