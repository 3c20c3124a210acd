"""Which columns each record names; the others keep their default or their present value."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from playhead.postgres.rows.python_json import Documents, read_object
from playhead.postgres.rows.text_format import Bad
from playhead.tables.column_names import fold

FORM = "playhead:form"
Names = frozenset[str]
# Names that JSON can spell differently only by case and by escapes.
_PLAIN = re.compile(r"[A-Za-z0-9_ .:$-]+")
_MOST_BITS = 40


class ColumnSets:
    """Sets of named columns, and the set of each record."""

    def __init__(self, records: int) -> None:
        self.names: list[Names] = []
        self._numbers: dict[Names, int] = {}
        self._of = [0] * records

    def add(self, index: Iterable[int], names: Names) -> None:
        """Add records that all name the same columns."""
        number = self._number(names)
        if number:
            for i in index:
                self._of[i] = number

    def add_each(self, index: Sequence[int], each: Sequence[int], sets: Sequence[Names]) -> None:
        """Add records that name one of the sets each."""
        numbers = [self._number(names) for names in sets]
        for i, which in zip(index, each, strict=True):
            self._of[i] = numbers[which]

    def _number(self, names: Names) -> int:
        if names not in self._numbers:
            self._numbers[names] = len(self.names)
            self.names.append(names)
        return self._numbers[names]

    @property
    def column(self) -> Any:
        """The number of each record's set; None if all have one."""
        return pa.array(self._of, pa.int32()) if len(self.names) > 1 else None


class ColumnNamer:
    """Finds out which of the relevant columns records name."""

    def __init__(self, documents: Documents, minded: Collection[str]) -> None:
        self._documents, self._minded = documents, tuple(sorted(minded))
        self._all = frozenset(minded)

    def note_nulls(self, forms: ColumnSets, index: Sequence[int]) -> None:
        """A record without a value names every column as null."""
        forms.add(index, self._all)

    def note_text(self, forms: ColumnSets, i: int, value: bytes) -> None:
        """Add a record that is read by itself."""
        forms.add([i], self._named(value))

    def note_table(
        self,
        forms: ColumnSets,
        index: Sequence[int],
        table: Any,
        held: Sequence[bytes],
        refuse: Callable[[int, Bad], None],
    ) -> None:
        """Add records that were read together: a record that fills a column names it."""
        constant, masks = set(self._minded), {}
        nulls = {name: table.column(name) for name in self._minded if table.column(name).null_count}
        explicit = {}
        for n in self._suspects(nulls, held) if nulls else ():
            try:
                explicit[n] = self._named(held[n])
            except Bad as bad:  # Arrow had no reason to parse all of it.
                refuse(index[n], bad)
        for name, column in nulls.items():
            mask = pc.is_valid(column).combine_chunks()
            said = [n for n, names in explicit.items() if name in names]
            if said:
                at = pa.array(range(len(held)), pa.int64())
                mask = pc.or_(mask, pc.is_in(at, value_set=pa.array(said, pa.int64())))
            count = mask.true_count
            if count < len(held):
                constant.discard(name)
            if 0 < count < len(held):
                masks[name] = mask
        if not masks:
            forms.add(index, frozenset(constant))
            return
        each, firsts = _told_apart(list(masks.values()))
        sets = [
            frozenset(constant | {name for name, mask in masks.items() if mask[n].as_py()})
            for n in firsts
        ]
        forms.add_each(index, each, sets)

    def _suspects(self, nulls: dict[str, Any], held: Sequence[bytes]) -> set[int]:
        """Return the records that may name a column as null."""
        joined = b"\n".join(held)
        lowered, has_escapes = joined.lower(), b"\\u" in joined
        suspects: set[int] = set()
        for name, column in nulls.items():
            quoted = b'"' + fold(name).encode() + b'"'
            is_plain = _PLAIN.fullmatch(name) is not None
            if is_plain and not has_escapes and quoted not in lowered:
                continue
            rows = pc.indices_nonzero(pc.is_null(column).combine_chunks()).to_pylist()
            suspects.update(
                n
                for n in rows
                if not is_plain or quoted in held[n].lower() or (has_escapes and b"\\u" in held[n])
            )
        return suspects

    def _named(self, value: bytes) -> Names:
        return self._all.intersection(self._documents.spelling(read_object(value)))


def _told_apart(masks: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Return a number for each row, equal for equal masks, and the first row of each number."""
    codes, bits = pc.cast(masks[0], pa.int64()), 1
    for mask in masks[1:]:
        if bits == _MOST_BITS:
            codes, bits = _dense(codes), 1
        codes, bits = pc.add(pc.multiply(codes, 2), pc.cast(mask, pa.int64())), bits + 1
    each, firsts = _dense(codes).to_pylist(), dict[int, int]()
    for n, number in enumerate(each):
        firsts.setdefault(number, n)
    return each, [firsts[number] for number in range(len(firsts))]


def _dense(codes: Any) -> Any:
    encoded = pc.dictionary_encode(codes)
    return pc.cast(encoded.indices, pa.int64())
