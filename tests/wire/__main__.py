"""Generates `brokertwin/protocol/generated`: `make generate`."""

from tests.wire.structs import write

write()
