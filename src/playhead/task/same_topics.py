"""Checks, after records were read, that a source's topics are still those of the pipeline's start.

Topic ids are never reused. A topic that has the expected id after a read also had it before, so the
records are from that topic and not from one created in its place.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from playhead.source import Source
from playhead.terms import OtherTerms, differing_topics


class SameTopics:
    """Asks a source for topic ids; connects at the first question, and never if no ids are expected."""

    def __init__(self, pipeline_id: str, source: Source | None) -> None:
        self._pipeline_id = pipeline_id
        self._source: Any = source
        self._expected: Mapping[str, str] = getattr(source, "expect_topic_ids", None) or {}
        self._stack = ExitStack()
        self._ask: Callable[[str], str | None] | None = None

    def confirm(self, topic: str) -> None:
        """Refuse a topic that was deleted, and perhaps created again."""
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
        """Confirm every expected topic."""
        for topic in sorted(self._expected):
            self.confirm(topic)

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        self._ask = None
        self._stack.close()
