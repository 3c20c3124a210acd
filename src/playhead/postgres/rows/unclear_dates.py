"""Finds dates whose year has two digits, so that the order of their parts decides what they mean."""

import re

# With its zone. Otherwise an hour and a zone would look like parts of a date.
_CLOCK_TIME = re.compile(
    r"\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*+)?)?(?:\s*+[+-]\d{1,2}(?::?\d\d){0,2})?", re.ASCII
)
# Up to 31; a higher number can only be a year, and the server refuses it in any other place than the first.
_SMALL = r"(?:[0-2]?\d|3[01])"
_BETWEEN = r"[^a-z0-9:]"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*+"
_LAST = r"\d{1,2}(?!\d)"
_UNCLEAR = re.compile(
    rf"(?<!\d)(?<!\d{_BETWEEN}){_SMALL}(?:{_BETWEEN}++\d{{1,2}}(?!\d){_BETWEEN}++|{_BETWEEN}*+{_MONTH}{_BETWEEN}*+){_LAST}"
    rf"|(?<![a-z]){_MONTH}{_BETWEEN}*+{_SMALL}{_BETWEEN}++(?:[a-z]++{_BETWEEN}++)?{_LAST}",
    re.ASCII | re.IGNORECASE,
)


def unclear_date(text: str, *, are_many: bool = False) -> str | None:
    """Return the first date in a text that has several meanings, such as 24-OCT-21: in October of 2021, or of 2024.

    In a text of several dates, of a range or an array, a comma ends a date.
    """
    text = _CLOCK_TIME.sub("", text)
    found = (_UNCLEAR.search(each) for each in (text, *(text.split(",") if are_many else ())))
    return next((each[0] for each in found if each), None)
