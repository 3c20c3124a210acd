"""Text for each record of `consume`, by a format as kcat has it: `%t %p %o %k %s`."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from playhead.cli.records.record_lines import unescaped
from playhead.errors import BadValue
from playhead.kafka.produce.console_lines import LineWriter, Separators
from playhead.records import Records

_FIELDS = {"t": "topic", "p": "partition", "o": "offset", "T": "timestamp", "D": "time"}
_FIELDS |= {"h": "headers", "k": "key", "s": "value", "K": "key", "S": "value"}
_MEANINGS = {
    **{sign: field for sign, field in _FIELDS.items() if sign not in "TDKS"},
    "T": "timestamp in ms",
    "D": "time in UTC",
    "K": "length of the key",
    "S": "length of the value",
    "%": "a percent sign",
}
_LENGTHS = "KS"
_TOKENS = re.compile("%(.?)", re.DOTALL)
_NO_LENGTH = b"-1"
Column = Callable[[Records, Sequence[bytes | None], Sequence[bytes | None]], Sequence[bytes]]


@dataclass(frozen=True, slots=True)
class FormatWriter:
    """Texts of a format, and between them the signs that stand for a field."""

    texts: Sequence[bytes]
    signs: Sequence[str]
    separators: Separators

    @classmethod
    def parse(cls, text: str, separators: Separators) -> "FormatWriter":
        texts, signs, begin = [""], [], 0
        for token in _TOKENS.finditer(text):
            texts[-1] += text[begin : token.start()]
            begin, sign = token.end(), token[1]
            if sign == "%":
                texts[-1] += "%"
            elif sign in _FIELDS:
                signs.append(sign)
                texts.append("")
            else:
                needed = ", ".join(f"%{known} {field}" for known, field in _MEANINGS.items())
                raise BadValue("--format", found=token[0], needed=needed)
        texts[-1] += text[begin:]
        return cls([unescaped(part) for part in texts], signs, separators)

    def lines(
        self,
        records: Records,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> list[bytes]:
        """The text of each record; keys and values may be those of the records decoded."""
        first, *texts = self.texts
        columns = [self._column(sign, records, keys, values) for sign in self.signs]
        if not columns:
            return [first] * len(records)
        return [
            first + b"".join(map(b"".join, zip(parts, texts, strict=True)))
            for parts in zip(*columns, strict=True)
        ]

    def _column(
        self,
        sign: str,
        records: Records,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> Sequence[bytes]:
        field = _FIELDS[sign]
        if sign in _LENGTHS:
            parts = keys if field == "key" else values
            return [_NO_LENGTH if part is None else b"%d" % len(part) for part in parts]
        if sign == "p":
            return [b"%d" % records.partition] * len(records)
        if sign in "oT":
            numbers = records.offsets if sign == "o" else records.timestamps_ms
            return [b"%d" % number for number in numbers]
        return LineWriter([field], self.separators, b"").lines(records, keys, values)
