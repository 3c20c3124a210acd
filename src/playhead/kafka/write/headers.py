"""Headers of records that are copied: rules that drop and add some, and where a record came from."""

from collections.abc import Sequence
from dataclasses import dataclass

from playhead.errors import BadValue
from playhead.record import Headers

TOPIC_HEADER = "__playhead.source.topic"
PARTITION_HEADER = "__playhead.source.partition"
OFFSET_HEADER = "__playhead.source.offset"
REPLAY_HEADER = "__playhead.source.replay"


@dataclass(frozen=True, slots=True)
class HeaderRules:
    """What to leave out of a record's headers and what to put at their end; all else stays, in order."""

    dropped: frozenset[str] = frozenset()
    added: Headers = ()

    @classmethod
    def parse(cls, rules: Sequence[str]) -> "HeaderRules":
        """Understand `keep`, `drop:NAME` and `add:NAME=VALUE`."""
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
        """Whether headers stay exactly as they are."""
        return not self.dropped and not self.added

    def apply(self, headers: Headers) -> Headers:
        """These headers by the rules."""
        if self.dropped:
            headers = tuple(header for header in headers if header[0] not in self.dropped)
        return headers + self.added


def provenance(topic: str, partition: int, offset: int, replay_id: str) -> Headers:
    """Headers that say where a copy was made from."""
    return (
        (TOPIC_HEADER, topic.encode()),
        (PARTITION_HEADER, str(partition).encode()),
        (OFFSET_HEADER, str(offset).encode()),
        (REPLAY_HEADER, replay_id.encode()),
    )


def unsendable(headers: Headers) -> str | None:
    """Why the client cannot send these headers as they are; None when it can."""
    for name, _ in headers:
        # The client would cut a name at its NUL without a word, and crash on half a character.
        if "\0" in name:
            return f"the name of header {name!r} holds a NUL, which the client cannot send"
        if not name.isascii() and not _is_text(name):
            return f"the name of header {name!r} is not valid Unicode"
    return None


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
