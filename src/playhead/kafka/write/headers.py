"""Headers of copied records: rules to drop and add some, and the origin of a record."""

from collections.abc import Sequence
from dataclasses import dataclass

from playhead.errors import BadValue
from playhead.printable import is_unicode
from playhead.record import Headers

TOPIC_HEADER = "__playhead.source.topic"
PARTITION_HEADER = "__playhead.source.partition"
OFFSET_HEADER = "__playhead.source.offset"
REPLAY_HEADER = "__playhead.source.replay"


@dataclass(frozen=True, slots=True)
class HeaderRules:
    """Which headers to drop, and which to add at the end; all others stay in order."""

    dropped: frozenset[str] = frozenset()
    added: Headers = ()

    @classmethod
    def parse(cls, rules: Sequence[str]) -> "HeaderRules":
        """Parse `keep`, `drop:NAME` and `add:NAME=VALUE`."""
        dropped: set[str] = set()
        added: list[tuple[str, bytes | None]] = []
        for rule in rules:
            action, _, rest = rule.partition(":")
            name, equals, value = rest.partition("=")
            if action == "drop" and rest:
                dropped.add(rest)
            elif action == "add" and name and equals:
                added.append((name, value.encode()))
            elif rule != "keep":
                raise BadValue(
                    "--headers",
                    found=rule,
                    needed="keep, drop:NAME or add:NAME=VALUE",
                    where="the target",
                )
        return cls(frozenset(dropped), tuple(added))

    @property
    def is_identity(self) -> bool:
        """Whether headers stay unchanged."""
        return not self.dropped and not self.added

    def apply(self, headers: Headers) -> Headers:
        """Apply the rules to these headers."""
        if self.dropped:
            headers = tuple(header for header in headers if header[0] not in self.dropped)
        return headers + self.added


def provenance(topic: str, partition: int, offset: int, replay_id: str) -> Headers:
    """Return headers with the origin of a copy."""
    return (
        (TOPIC_HEADER, topic.encode()),
        (PARTITION_HEADER, str(partition).encode()),
        (OFFSET_HEADER, str(offset).encode()),
        (REPLAY_HEADER, replay_id.encode()),
    )


def unsendable(headers: Headers) -> str | None:
    """Return why the client cannot send these headers unchanged; None if it can."""
    for name, _ in headers:
        # The client would silently cut a name at its NUL, and crash on a lone surrogate.
        if "\0" in name:
            return f"the name of header {name!r} contains a NUL, which the client cannot send"
        if not is_unicode(name):
            return f"the name of header {name!r} is not valid Unicode"
    return None
