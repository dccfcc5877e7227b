"""What the site's page calls in the browser: JSON in, JSON out. It runs under Pyodide.

`assets/worker.js` calls these functions in a worker thread, so that the page stays responsive.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.page.assembly import ASSETS
from brokertwin.page.scenes import Player, SceneError
from brokertwin.protocol.kafka_apis import API_KEYS

SCENES = "scenes"
_players: dict[str, Player] = {}


def incident(names: list[str], progress: Callable[[str], None]) -> str:
    """The document of an incident page for files in the browser's memory.

    Args:
        names: paths of the files.
        progress: is called with a few words when a part of the work begins.

    Returns:
        the document, or `{"error", "hint"}`.
    """
    from brokertwin.page.incident import document
    from brokertwin.recordings.audit.finders import findings
    from brokertwin.recordings.audit.reading import read
    from brokertwin.recordings.formats.pipeline import FileReading

    try:
        progress("reading lines")
        done = read([Path(name) for name in names], FileReading())
        progress("looking for findings")
        found = findings(done.history)
        progress("preparing the page")
        files = [Path(name).name for name in names]
        return msgspec.json.encode(document(done.history, found, files)).decode()
    except UserError as error:
        return json.dumps({"error": error.message, "hint": error.hint})


def scenes() -> str:
    """The scenes of the playground: file name, title, document and the text about it."""
    folder = ASSETS / SCENES
    files = sorted((each for each in folder.iterdir()), key=lambda each: each.name)
    found = [(each.name, json.loads(each.read_text(encoding="utf-8"))) for each in files]
    return json.dumps({"scenes": [{"name": name, **scene} for name, scene in found]})


def start(scene: str) -> str:
    """Start a scene, given as JSON, from its beginning. Returns its tables and the APIs."""
    _players["scene"] = player = Player(json.loads(scene))
    return json.dumps({"tables": player.tables(), "apis": sorted(API_KEYS)})


def do(step: str) -> str:
    """Send a step, given as JSON. Returns what it did and all tables, or `{"error"}`."""
    player = _players["scene"]
    try:
        found: dict[str, Any] = player.do(json.loads(step))
    except (SceneError, ValueError, KeyError, TypeError) as error:
        return json.dumps({"error": str(error)})
    return json.dumps(found | {"tables": player.tables()})
