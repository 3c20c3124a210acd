"""Whether a source's topics are still those that a pipeline began with, asked after records were read.

Ids never come back. A topic that has the expected id after a read had it before, so what was read is
of that topic, and not of one that was made in its place under the old offsets.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from playhead.source import Source
from playhead.terms import OtherTerms, differing_topics


class SameTopics:
    """Asks a source, and connects for the first question; one that expects no ids is never asked."""

    def __init__(self, pipeline_id: str, source: Source | None) -> None:
        self._pipeline_id = pipeline_id
        self._source: Any = source
        self._expected: Mapping[str, str] = getattr(source, "expect_topic_ids", None) or {}
        self._stack = ExitStack()
        self._ask: Callable[[str], str | None] | None = None

    def confirm(self, topic: str) -> None:
        """Refuse a topic that was deleted, and perhaps made again."""
        expected = self._expected.get(topic)
        if not expected:
            return
        if self._ask is None:
            self._ask = self._stack.enter_context(self._source.topic_ids())
        found = self._ask(topic)
        told = (
            [f"source topic {topic} is gone; the ledger says it had the id {expected}"]
            if found is None
            else differing_topics({topic: expected}, {topic: found})
        )
        if told:
            raise OtherTerms(self._pipeline_id, differences=told, is_endless=True)

    def confirm_all(self) -> None:
        """The same of every topic that is expected."""
        for topic in sorted(self._expected):
            self.confirm(topic)

    def close(self) -> None:
        """Let the connection go; it may be used again."""
        self._ask = None
        self._stack.close()
