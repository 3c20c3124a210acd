"""Which of two records of one key is later: by version, then by topic, partition and offset."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rank:
    """SQL expressions for a record's version and its origin; no origin if it is unknown."""

    version: str
    place: str = ""


def is_later(new: Rank, old: Rank, *, or_same: bool = False) -> str:
    """Return the condition that a record is later; one without a version is before all others.

    If both have one version and an origin is unknown, they count as the same record.
    """
    at_same = "true" if or_same else "false"
    if new.place and old.place:
        at_same = f"coalesce({new.place} {'>=' if or_same else '>'} {old.place}, {at_same})"
    return (
        f"CASE WHEN {old.version} IS NULL THEN {new.version} IS NOT NULL OR {at_same} "
        f"WHEN {new.version} IS NULL THEN false "
        f"WHEN {new.version} = {old.version} THEN {at_same} "
        f"ELSE {new.version} > {old.version} END"
    )
