"""Counts the fields of records that no column of a table takes: by name, and never without bound."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

DETAIL = "extra_fields"
"""Under this name an entry's details have the counts of its slice."""
MOST_NAMES, LONGEST_NAME = 32, 128
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class ExtraFields:
    """How many records have fields that no column takes, and how often each such field occurs.

    Names come from records, and anybody may have written those: the most frequent are kept, the rest
    is one sum. A field whose value is null holds nothing that could be lost, and is not counted.
    """

    records: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    others: int = 0
    """How often fields occur whose names are not kept."""

    @classmethod
    def counted(cls, names: Iterable[tuple[str, ...]]) -> "ExtraFields":
        """Of the records whose fields these are."""
        sets = Counter(names)
        fields: Counter[str] = Counter()
        for each, count in sets.items():
            fields.update(dict.fromkeys(each, count))
        return cls(sets.total() - sets[()], fields).bounded()

    @classmethod
    def total(cls, parts: "Iterable[ExtraFields]") -> "ExtraFields":
        """Of all parts together."""
        records = others = 0
        fields: Counter[str] = Counter()
        for part in parts:
            records, others = records + part.records, others + part.others
            fields.update(part.fields)
        return cls(records, fields, others).bounded()

    def bounded(self) -> "ExtraFields":
        """With the names that are kept, the most frequent first."""
        fit = {name: count for name, count in self.fields.items() if _may_be_kept(name)}
        kept = dict(sorted(fit.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_NAMES])
        others = self.others + sum(self.fields.values()) - sum(kept.values())
        return ExtraFields(self.records, kept, others)

    @property
    def text(self) -> str:
        """Which fields, and in how many records: `car in 12, lap in 3`."""
        shown = [*self.fields.items()][:_SHOWN]
        others = self.others + sum(self.fields.values()) - sum(count for _, count in shown)
        told = [f"{name} in {count:,}" for name, count in shown]
        return ", ".join([*told, *([f"other fields {others:,} times"] if others else [])])

    def as_details(self) -> dict[str, Any]:
        """What an entry's details have of it: nothing where there is nothing."""
        return {DETAIL: self.as_document()} if self.records else {}

    def as_document(self) -> dict[str, Any]:
        return {"records": self.records, "fields": dict(self.fields), "others": self.others}

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> "ExtraFields":
        """What `as_details` gave; a ValueError, TypeError or KeyError where it is something else."""
        document = details.get(DETAIL)
        if document is None:
            return cls()
        counts = (document["records"], document["others"], *document["fields"].values())
        if any(type(count) is not int or count < 0 for count in counts):
            raise ValueError(f"{DETAIL}: found {counts}, needed counts")
        return cls(document["records"], dict(document["fields"]), document["others"]).bounded()


def _may_be_kept(name: str) -> bool:
    """Whether a ledger can hold the name: PostgreSQL's JSON has neither NUL nor half of a surrogate pair."""
    return len(name) <= LONGEST_NAME and name.isprintable()
