"""Generates `state/core/wire/generated`: `make generate`."""

from tests.wire.structs import write

write()
