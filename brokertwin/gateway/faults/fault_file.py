"""Faults as documents: files in TOML or JSON, bodies of the HTTP control, and their JSON schema.

A document is a list of entries, or an object with the list `faults`. An entry has the fields of
`FaultSpec`.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.faults.fault import Fault, FaultSpec, read_spec

LIST = "faults"
SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def read(path: Path) -> list[FaultSpec]:
    """Read a fault file: JSON if its name ends in .json, otherwise TOML.

    Raises:
        UserError: the file cannot be read, or an entry is invalid; names the file and the entry.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise UserError(
            f"Cannot read the faults in {path}: {error.strerror}.", "Pass --faults FILE."
        ) from None
    except (ValueError, RecursionError) as error:  # a ValueError for bytes, JSON and TOML
        kind = "JSON" if path.suffix == ".json" else "TOML"
        why = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        raise UserError(
            f"{path} is not valid {kind}: {why}.", "A fault file is TOML, or JSON in *.json."
        ) from None
    return specs_in(document, str(path))


def specs_in(document: Any, origin: str) -> list[FaultSpec]:
    """Return the faults of a document.

    Args:
        document: an entry, a list of entries, or an object with the list `faults`.
        origin: prefix of error messages, such as a file name.

    Raises:
        UserError: an entry is invalid; names it by its number from 1.
    """
    entries = document
    if isinstance(document, dict) and LIST in document:
        entries = document[LIST]
        extra = sorted(document.keys() - {LIST})
        if extra:
            raise UserError(
                f"{origin}: unknown key {extra[0]} beside {LIST}.", f"Put entries into {LIST}."
            )
    elif isinstance(document, dict):
        entries = [document]
    if not isinstance(entries, list) or not entries or entries == [{}]:
        raise UserError(
            f"{origin}: there are no faults.",
            'Write [[faults]] entries in TOML, or {"faults": [...]} in JSON.',
        )
    return [_entry(each, number, origin) for number, each in enumerate(entries, 1)]


def _entry(document: Any, number: int, origin: str) -> FaultSpec:
    try:
        return Fault(read_spec(document)).spec
    except UserError as error:
        raise UserError(f"{origin}, fault {number}: {error.message}", error.hint) from None


def text_of(specs: list[FaultSpec]) -> str:
    return json.dumps({LIST: msgspec.to_builtins(specs)}, indent=2) + "\n"


def schema() -> dict[str, Any]:
    """Return the JSON schema of a document with the list `faults`."""
    (ref,), definitions = msgspec.json.schema_components([FaultSpec], ref_template="#/$defs/{name}")
    return {
        "$schema": SCHEMA_ID,
        "title": "Faults of brokertwin proxy",
        "type": "object",
        "properties": {LIST: {"type": "array", "items": ref}},
        "required": [LIST],
        "additionalProperties": False,
        "$defs": definitions,
    }


def status(fault: Fault) -> dict[str, Any]:
    """Return a fault with its counts, as the HTTP control lists it."""
    return {
        "id": fault.number,
        "text": str(fault),
        "fault": msgspec.to_builtins(fault.spec),
        "matches": fault.matches,
        "hits": fault.hits,
        "held": fault.held,
        "isOver": fault.is_over,
    }
