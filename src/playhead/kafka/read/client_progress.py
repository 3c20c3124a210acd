"""How far the client is in each partition, by its own statistics."""

import json
from dataclasses import dataclass

from playhead.source import TopicPartition

_MANY_ANSWERS = 10
_ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class Progress:
    """The next offset to fetch in each partition, and what brokers have answered so far."""

    positions: dict[TopicPartition, int]
    """They also advance over offsets without records."""
    behind: dict[TopicPartition, int]
    """Of partitions with more to read: how many answers have come from the broker that is asked."""

    def has_moved_since(self, before: "Progress") -> bool:
        """Return whether there is another offset to fetch, or more to read."""
        return (self.positions, self.behind.keys()) != (before.positions, before.behind.keys())

    def withheld_since(self, before: "Progress") -> tuple[TopicPartition, int] | None:
        """Return a partition whose broker has answered many times, and the offset that the client does not pass.

        It reports no error for a record batch that it cannot take apart, and requests it again.
        """
        for place, answers in self.behind.items():
            if answers - before.behind.get(place, answers) >= _MANY_ANSWERS:
                return place, self.positions[place]
        return None


NOT_KNOWN = Progress({}, {})


def progress_in(statistics: str) -> Progress:
    """Read the client's statistics."""
    try:
        told = json.loads(statistics)
    except ValueError:  # A broker's name is in it as it is, and may have a quote.
        return NOT_KNOWN
    answers = {each.get("nodeid"): each.get("rx", 0) for each in told.get("brokers", {}).values()}
    positions, behind = {}, {}
    for topic, its in told.get("topics", {}).items():
        for partition in its.get("partitions", {}).values():
            place, at = (topic, partition.get("partition", -1)), partition.get("next_offset", -1)
            positions[place] = at
            # -1 without a leader: the number of brokers that are known by their address only.
            asked = partition.get("broker", -1)
            is_behind = 0 <= at < partition.get("ls_offset", -1)
            if partition.get("fetch_state") == _ACTIVE and is_behind and asked >= 0:
                behind[place] = answers.get(asked, 0)
    return Progress(positions, behind)
