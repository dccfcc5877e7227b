"""Content of a state row of the live audit."""

from enum import StrEnum


class KeyMode(StrEnum):
    """An entity with named columns, or a bucket of entities in one binary column."""

    ENTITY = "entity"
    BUCKET = "bucket"
