"""Content of a state row of the live audit."""

from enum import StrEnum

from brokertwin.streaming.checkpoint.checkpoint_log import LIVE

FIXED = LIVE
"""File in the checkpoint with the settings that cannot change."""


class KeyMode(StrEnum):
    """An entity with named columns, or a bucket of entities in one binary column."""

    ENTITY = "entity"
    BUCKET = "bucket"
