"""The conditions of a filter, joined by AND and OR, and the values that each keyword reads."""

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from playhead.traffic import http_body
from playhead.traffic.filter.regex import BadPattern, Pattern
from playhead.traffic.pair import Pair, as_text, instant_ns, tags_of, time_ns, uuid_of
from playhead.traffic.pair import field as within
from playhead.traffic.pair_path import MISSING, reach, shown

WHERE: Final = "--filter"
Looks = Callable[[Pair, str], Iterable[str]]


class Test(Protocol):
    """A predicate on pairs; `str` gives its text in the filter language."""

    def matches(self, pair: Pair) -> bool: ...


@dataclass(frozen=True, slots=True)
class Both:
    """Tests joined by AND."""

    parts: tuple[Test, ...]

    def matches(self, pair: Pair) -> bool:
        return all(each.matches(pair) for each in self.parts)

    def __str__(self) -> str:
        return " AND ".join(map(_grouped, self.parts))


@dataclass(frozen=True, slots=True)
class Either:
    """Tests joined by OR."""

    parts: tuple[Test, ...]

    def matches(self, pair: Pair) -> bool:
        return any(each.matches(pair) for each in self.parts)

    def __str__(self) -> str:
        return " OR ".join(map(_grouped, self.parts))


def _grouped(part: Test) -> str:
    return f"({part})"


@dataclass(frozen=True, slots=True)
class Condition:
    """Compares one keyword with one value.

    A pair without the field is neither equal to the value nor contains it, so `NOT` matches the pair.
    """

    keyword: str
    key: str
    operator: str
    """IS, CONTAINS or REGEX."""
    is_negated: bool
    value: str
    pattern: Pattern | None = field(default=None, compare=False)

    def matches(self, pair: Pair) -> bool:
        return any(map(self._holds, KEYWORDS[self.keyword](pair, self.key))) != self.is_negated

    def _holds(self, found: str) -> bool:
        if self.pattern is not None:
            return self.pattern.found_in(found)
        return self.value in found if self.operator == "CONTAINS" else found == self.value

    def __str__(self) -> str:
        name = f"{self.keyword}[{self.key}]" if self.key else self.keyword
        operator = self.operator
        if self.is_negated:
            operator = "NOT" if operator == "IS" else f"NOT {operator}"
        return f"{name} {operator} {quoted(self.value)}"


@dataclass(frozen=True, slots=True)
class Between:
    """Matches pairs captured in `[from_ns, to_ns)`."""

    from_ns: int
    to_ns: int
    written: tuple[str, str]
    is_negated: bool = False

    def matches(self, pair: Pair) -> bool:
        at = time_ns(pair)
        return (at is not None and self.from_ns <= at < self.to_ns) != self.is_negated

    def __str__(self) -> str:
        operator = "NOT" if self.is_negated else "IS"
        return f"timerange {operator} {' '.join(map(quoted, self.written))}"


@dataclass(frozen=True, slots=True)
class Sample:
    """Matches a fixed sample of sessions, `taken` of `of`; a pair without a session counts as its own session."""

    taken: int
    of: int
    by_pair: bool
    is_negated: bool = False

    def matches(self, pair: Pair) -> bool:
        session = None if self.by_pair else as_text(pair.get("session"))
        name = session or uuid_of(pair) or str(pair.get("ts"))
        return (
            zlib.crc32(name.encode("utf-8", "replace")) % self.of < self.taken
        ) != self.is_negated

    def __str__(self) -> str:
        name = "sample[rrpair]" if self.by_pair else "sample"
        return f'{name} {"NOT" if self.is_negated else "IS"} "{self.taken}/{self.of}"'


def quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# --- the values of each keyword


def _plain(*names: str) -> Looks:
    def look(pair: Pair, _: str) -> Sequence[str]:
        text = as_text(within(pair, *names))
        return () if text is None else (text,)

    return look


def _header(pair: Pair, key: str) -> Sequence[str]:
    wanted = key.lower()
    found: list[str] = []
    headers = within(pair, "http", "req", "headers")
    for name, values in headers.items() if isinstance(headers, Mapping) else ():
        if name.lower() == wanted:
            listed = values if isinstance(values, list) else [values]
            found += [text for each in listed if (text := as_text(each)) is not None]
    return found


def _tag(pair: Pair, key: str) -> Sequence[str]:
    text = as_text(tags_of(pair).get(key))
    return () if text is None else (text,)


def _source(pair: Pair, _: str) -> Iterable[str]:
    return _tag(pair, "source") or _plain("source")(pair, "")


def _uuid(pair: Pair, _: str) -> Sequence[str]:
    """Return the UUID in canonical form, and as in the file."""
    written = as_text(pair.get("uuid"))
    return () if written is None else (uuid_of(pair), written)


def _url(pair: Pair, _: str) -> Sequence[str]:
    request = within(pair, "http", "req")
    found = [as_text(within(request, name)) for name in ("url", "uri")]
    return [each for each in found if each is not None]


def _host(pair: Pair, _: str) -> Iterable[str]:
    host = as_text(within(pair, "http", "req", "host"))
    return _plain("network_address")(pair, "") if host is None else (host,)


def _json(pair: Pair, key: str) -> Sequence[str]:
    document: Any = http_body.request_json(pair)
    found = MISSING if document is None else reach(document, key.lstrip(".").split("."))
    return () if found is MISSING else (shown(found),)


def _xml(pair: Pair, key: str) -> Iterable[str]:
    return http_body.xml_texts(pair, key)


def _soap(pair: Pair, key: str) -> Iterable[str]:
    return http_body.xml_texts(pair, key, from_soap_body=True)


SNAPSHOT: Final = "snapshot"
KEYED: Final = ("header", "tag", "req_json", "req_xml", "req_soapxpath", "req_xpath")
SPECIAL: Final = ("timerange", "sample")
KEYWORDS: Final[Mapping[str, Looks]] = {
    "cluster": _plain("cluster"),
    "command": _plain("command"),
    "direction": _plain("direction"),
    "header": _header,
    "host": _host,
    "l7protocol": _plain("l7protocol"),
    "location": _plain("location"),
    "namespace": _plain("namespace"),
    "networkaddr": _plain("network_address"),
    "network_address": _plain("network_address"),
    "req_json": _json,
    "req_soapxpath": _soap,
    "req_xml": _xml,
    "req_xpath": _xml,
    "service": _plain("service"),
    "session": _plain("session"),
    SNAPSHOT: _plain("snapshot"),
    "source": _source,
    "status": _plain("status"),
    "tag": _tag,
    "tech": _plain("tech"),
    "url": _url,
    "uuid": _uuid,
}


def condition(
    keyword: str, key: str, operator: str, values: tuple[str, ...], *, is_negated: bool
) -> Test:
    """Return one condition; raises `ValueError` with the index of the invalid value, and the reason."""
    if keyword == "timerange":
        found = [instant_ns(value) for value in values]
        if None in found:
            raise ValueError(found.index(None), "needed an instant such as 2023-10-26T02:28:54Z")
        from_ns, to_ns = (each or 0 for each in found)
        if from_ns > to_ns:
            raise ValueError(1, "the end is before the start")
        return Between(from_ns, to_ns, (values[0], values[1]), is_negated)
    if keyword == "sample":
        part = re.fullmatch(r"([1-9]\d{0,8})/([1-9]\d{0,8})", values[0], re.ASCII)
        if part is None or int(part[1]) > int(part[2]):
            raise ValueError(0, 'needed a fraction such as "1/5"')
        return Sample(int(part[1]), int(part[2]), key == "rrpair", is_negated)
    pattern = None
    if operator == "REGEX":
        try:
            pattern = Pattern(values[0])
        except BadPattern as exc:
            raise ValueError(0, f"the regular expression is not valid: {exc}") from exc
    return Condition(keyword, key, operator, is_negated, values[0], pattern)
