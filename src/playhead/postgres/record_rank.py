"""Which of two records of one key is the later one: by version, then by topic, partition and offset."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rank:
    """Expressions of SQL: a record's version, and its place as a row; no place where nobody knows it."""

    version: str
    place: str = ""


def is_later(new: Rank, old: Rank, *, or_same: bool = False) -> str:
    """The condition that a record is later; without a version it is before all that have one.

    Where both have one version and a place is not known, it is what is said of the same record.
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
