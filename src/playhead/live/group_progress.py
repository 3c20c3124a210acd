"""Commits a pipeline's progress for a consumer group, so that Kafka tools show its lag."""

import time
from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError, Unavailable
from playhead.kafka.groups.commit import GroupMover
from playhead.source import TopicPartition

_EVERY_S = 0.5
_LAST_WITHIN_S = 5.0


class MovingGroup:
    """Commits in its own thread: no record waits for it, and nothing depends on it."""

    def __init__(self, connection: KafkaConnection, group: str, say: Callable[[str], None]) -> None:
        self._connection, self._group, self._say = connection, group, say
        self._wanted: dict[TopicPartition, int] = {}
        self._moved: dict[TopicPartition, int] = {}
        self._lock, self._is_over = Lock(), Event()
        self._has_complained = False
        self._thread = Thread(target=self._run, name="group", daemon=True)

    def __enter__(self) -> "MovingGroup":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(_LAST_WITHIN_S)

    def move(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets that the group should have soon."""
        with self._lock:
            self._wanted = dict(offsets)

    def _run(self) -> None:
        mover = GroupMover(self._connection, self._group)
        while not self._is_over.wait(_EVERY_S):
            self._catch_up(mover)
        # A coordinator that is moving refuses once or twice, even at the very end.
        until = time.monotonic() + _LAST_WITHIN_S
        while not self._catch_up(mover) and time.monotonic() < until:
            time.sleep(_EVERY_S)
        mover.close()

    def _catch_up(self, mover: GroupMover) -> bool:
        """Commit what is due; return whether nothing is left."""
        with self._lock:
            new = {p: at for p, at in self._wanted.items() if self._moved.get(p) != at}
        try:
            if new:
                mover.move(new)
                self._moved.update(new)
        except Unavailable:
            return False  # The reader reports the same outage; the next attempt will succeed.
        except PlayheadError as exc:
            self._complain(exc)
        return True

    def _complain(self, exc: PlayheadError) -> None:
        if not self._has_complained:
            self._say(f"group {self._group} does not show the present progress: {exc!s}")
            self._has_complained = True
