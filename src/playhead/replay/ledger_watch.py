"""Looks at what a replay has committed while its job plays, without keeping anybody waiting."""

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
    """What a thread of its own has seen of the ledger.

    A look may hang for as long as a connection does that nobody answers. The thread that tells
    progress is also the one that takes Ctrl-C, so it never looks itself.
    """

    def __init__(self, target: Target, replay_id: str, every_s: float) -> None:
        self._target, self._replay_id, self._every_s = target, replay_id, every_s
        self._over = Event()
        self._seen: SimpleQueue[Sequence[Entry] | BaseException] = SimpleQueue()

    def latest(self) -> Sequence[Entry] | None:
        """What the last look has found, when it has not been asked for yet."""
        latest: Sequence[Entry] | None = None
        while not self._seen.empty():
            found = self._seen.get()
            if isinstance(found, BaseException):
                raise found
            latest = found
        return latest

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Look every so often for as long as the block takes."""
        name = f"looks at {self._replay_id}"
        thread = Thread(target=self._go_on, name=name, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            # One that hangs is left to itself: it has nothing to lose.
            thread.join(_CLOSED_WITHIN_S)

    def _go_on(self) -> None:
        try:
            with self._target.watch(self._replay_id) as entries:
                while not self._over.wait(self._every_s):
                    with suppress(Unavailable):  # the tasks will notice, and what they say counts
                        self._seen.put(entries())
        except BaseException as exc:  # noqa: BLE001  raised again in the thread that asks
            self._seen.put(exc)


def one_look(target: Target, replay_id: str, *, within_s: float) -> Sequence[Entry]:
    """What the ledger has; `Unavailable` where it does not answer in time."""
    try:
        return call_within(
            lambda: target.entries(replay_id), within_s, name=f"a look at {replay_id}"
        )
    except TimeoutError:
        raise Unavailable(f"its ledger did not answer within {within_s:g} s") from None
