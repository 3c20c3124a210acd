"""How far the client is in each partition, by its own statistics."""

import json
from dataclasses import dataclass

from playhead.source import TopicPartition

_MANY_ANSWERS = 10
_ACTIVE = "active"
_NO_LEADER = -1
"""It is also the number of brokers that are known by their address only."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The next offset to fetch in each partition, and what brokers have answered so far."""

    positions: dict[TopicPartition, int]
    """They also advance over offsets without records."""
    behind: dict[TopicPartition, tuple[int, int]]
    """Of partitions with more to read: the broker that is asked, and how many answers have come from it."""

    def has_moved_since(self, before: "Progress") -> bool:
        """Return whether there is another offset to fetch, or more to read."""
        return (self.positions, self.behind.keys()) != (before.positions, before.behind.keys())

    def withheld_since(self, before: "Progress") -> tuple[TopicPartition, int] | None:
        """Return a partition whose broker has answered many times, and the offset that the client does not pass.

        The client reports no error for a record batch that it cannot take apart, and requests it again.
        """
        for place, (broker, answers) in self.behind.items():
            asked, answered = before.behind.get(place, (_NO_LEADER, 0))
            if asked == broker != _NO_LEADER and answers - answered >= _MANY_ANSWERS:
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
            if partition.get("fetch_state") == _ACTIVE and 0 <= at < partition.get("ls_offset", -1):
                asked = partition.get("broker", _NO_LEADER)
                behind[place] = asked, answers.get(asked, 0)
    return Progress(positions, behind)
