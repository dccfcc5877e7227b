"""A page in headless Chromium, as wide as a screen or a telephone, in light and in dark."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE_S = 300
DARK, LIGHT = 0, 1
"""Chromium's names for the schemes that a reader may prefer."""

FRAMES = """<!DOCTYPE html><html><body style="margin:0">{frames}<pre id="seen"></pre><script>
const seen = frame => {{
  const page = frame.contentDocument, root = page.documentElement;
  page.querySelectorAll("details").forEach(each => {{ each.open = true; }});
  const wide = [...page.querySelectorAll("body *")].filter(each =>
    each.getBoundingClientRect().right > root.clientWidth + 1 && !each.closest(".lines, svg"));
  const style = frame.contentWindow.getComputedStyle(page.body);
  const color = each => frame.contentWindow.getComputedStyle(each).color;
  return {{width: root.clientWidth, needs: root.scrollWidth, back: style.backgroundColor,
    text: style.color, plots: page.querySelectorAll(".plot").length,
    drawn: page.querySelectorAll(".plot svg").length,
    said: [...page.querySelectorAll(".plot")].map(each => each.innerText).join(" "),
    wide: wide.slice(0, 5).map(each => each.outerHTML.slice(0, 120)),
    labels: [...new Set([...page.querySelectorAll(".plot svg text")]
      .map(each => each.getAttribute("fill") || color(each)))]}};
}};
onload = () => setTimeout(() => {{
  document.getElementById("seen").textContent =
    JSON.stringify([...document.querySelectorAll("iframe")].map(seen));
}}, 8000);
</script></body></html>
"""


class Seen(NamedTuple):
    """What a browser makes of a page.

    Attributes:
        frames: for each width what the page measures there.
        console: what it wrote of scripts and of what could not be loaded.
    """

    frames: list[dict[str, Any]]
    console: list[str]


def browser() -> str | None:
    """Where Chromium is; None where it is not."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def seen(page: Path, widths: tuple[int, ...], scheme: int) -> Seen:
    """Open a page, each width in a frame of its own; nothing but files can be reached."""
    frames = "".join(
        f'<iframe src="{page.name}" width="{w}" height="900"></iframe>' for w in widths
    )
    wrapper = page.with_name(f"frames-{scheme}.html")
    style = "<style>iframe { border: 0; }</style>"
    wrapper.write_text(style + FRAMES.format(frames=frames), encoding="utf-8")
    words = [
        *(str(browser()), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--allow-file-access-from-files", "--host-resolver-rules=MAP * ~NOTFOUND"),
        *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
        *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=20000", "--dump-dom"),
        *(f"--user-data-dir={page.parent / 'profile'}", "--window-size=1800,1000"),
        *(f"--blink-settings=preferredColorScheme={scheme}", wrapper.as_uri()),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    (told,) = re.findall(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    # Vega-Lite warns of a bar's two ends, which have the same times.
    lines = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    console = [line for line in lines if "WARN Conflicting scale property" not in line]
    return Seen(json.loads(unescape(told)), console)
