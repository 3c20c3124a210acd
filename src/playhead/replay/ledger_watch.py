"""Reads the ledger for progress while a job runs, without blocking other threads."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Event, Thread

from playhead.errors import Unavailable
from playhead.host.threads import call_within
from playhead.ledger import Entry
from playhead.target import Target

_CLOSED_WITHIN_S = 1.0


class LedgerWatcher:
    """The results of a thread that reads the ledger.

    A read may hang as long as its connection. The thread that prints progress also handles Ctrl-C, so it
    never reads itself.
    """

    def __init__(self, target: Target, replay_id: str, every_s: float) -> None:
        self._target, self._replay_id, self._every_s = target, replay_id, every_s
        self._over = Event()
        self._seen: SimpleQueue[Sequence[Entry] | BaseException] = SimpleQueue()

    def latest(self) -> Sequence[Entry] | None:
        """Return the latest result if it is new."""
        latest: Sequence[Entry] | None = None
        while not self._seen.empty():
            found = self._seen.get()
            if isinstance(found, BaseException):
                raise found
            latest = found
        return latest

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Read at regular intervals during the block."""
        name = f"looks at {self._replay_id}"
        thread = Thread(target=self._go_on, name=name, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            # A hanging read is abandoned: it has nothing to lose.
            thread.join(_CLOSED_WITHIN_S)

    def _go_on(self) -> None:
        try:
            with self._target.watch(self._replay_id) as entries:
                while not self._over.wait(self._every_s):
                    with suppress(
                        Unavailable
                    ):  # The tasks will notice the outage, and their errors count.
                        self._seen.put(entries())
        except BaseException as exc:  # noqa: BLE001  raised again in the thread that asks
            self._seen.put(exc)


def one_look(target: Target, replay_id: str, *, within_s: float) -> Sequence[Entry]:
    """Return the ledger's entries; raise `Unavailable` after `within_s`."""
    try:
        return call_within(
            lambda: target.entries(replay_id), within_s, name=f"a look at {replay_id}"
        )
    except TimeoutError:
        raise Unavailable(f"its ledger did not answer within {within_s:g} s") from None
