"""A page in headless Chromium, as wide as a screen or a telephone, in light and in dark."""

import json
import re
import shutil
import subprocess
import threading
import urllib.request
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
    all: page.body.innerText,
    diagrams: ["pre", "div"].map(each => page.querySelectorAll(each + ".mermaid").length),
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
    """A page rendered by a browser.

    Attributes:
        frames: the measurements of the page, by width.
        console: messages of scripts and of resources that failed to load.
    """

    frames: list[dict[str, Any]]
    console: list[str]


def browser() -> str | None:
    """Where Chromium is; None where it is not."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def seen(page: Path, widths: tuple[int, ...], scheme: int) -> Seen:
    """Open a page, each width in a separate frame; only files can be reached."""
    wrapper = page.with_name(f"frames-{scheme}.html")
    wrapper.write_text(_frames(page.name, widths), encoding="utf-8")
    return _opened(wrapper.as_uri(), page.parent, scheme)


def seen_at(url: str, directory: Path, widths: tuple[int, ...], scheme: int) -> Seen:
    """The same of a page that a server of this machine has; the browser's files are in `directory`.

    The frames are served from the same place, or the browser would not let them be looked into.
    """

    class FrameHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/frames":
                kind, body = "text/html", _frames("/", widths).encode()
            else:
                with urllib.request.urlopen(url.rstrip("/") + self.path) as response:
                    kind, body = response.headers["Content-Type"], response.read()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), FrameHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return _opened(f"http://127.0.0.1:{server.server_port}/frames", directory, scheme)
        finally:
            server.shutdown()


def _frames(page: str, widths: tuple[int, ...]) -> str:
    frames = "".join(f'<iframe src="{page}" width="{w}" height="900"></iframe>' for w in widths)
    head = '<link rel="icon" href="data:,"><style>iframe { border: 0; }</style>'
    return head + FRAMES.format(frames=frames)


def _opened(url: str, directory: Path, scheme: int) -> Seen:
    words = [
        *(str(browser()), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--allow-file-access-from-files", "--disable-background-networking", "--no-first-run"),
        *("--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
        *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=20000", "--dump-dom"),
        *(f"--user-data-dir={directory / 'profile'}", "--window-size=1800,1000"),
        *(f"--blink-settings=preferredColorScheme={scheme}", url),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    (output,) = re.findall(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    # Vega-Lite warns of a bar's two ends, which have the same times.
    lines = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    console = [line for line in lines if "WARN Conflicting scale property" not in line]
    return Seen(json.loads(unescape(output)), console)


def brightness(color: str) -> float:
    """From 0, black, to 1, white, of a colour as a browser computes it."""
    red, green, blue = map(int, re.findall(r"\d+", color)[:3])
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def assert_fits(found: Seen, widths: tuple[int, ...], scheme: int) -> None:
    """No error, nothing wider than the reader's screen, and text to be read in this scheme."""
    assert found.console == []
    assert [each["width"] for each in found.frames] == list(widths)
    for each in found.frames:
        assert each["needs"] <= each["width"], each["wide"]
        is_dark = brightness(each["back"]) < 0.2
        assert is_dark == (scheme == DARK), each["back"]
        assert abs(brightness(each["text"]) - brightness(each["back"])) > 0.6
