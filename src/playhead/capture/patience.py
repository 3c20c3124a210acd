"""How long clients wait for a client that fills the memory."""

from typing import Final

FORGOTTEN_AFTER_S: Final = 300.0
# With six closings the time is a sixty-fourth. More would only be forgotten later.
_MOST_CLOSINGS: Final = 6


class Patience:
    """Each closing halves the time until the next one; five minutes with room double it again.

    Closings are not forgotten as soon as there is room: a client that fills the memory again and again
    would get the whole time each time.
    """

    def __init__(self) -> None:
        self.closings = 0
        self._room_s = 0.0

    @property
    def share(self) -> float:
        """The part of the whole time that is left."""
        return float(0.5**self.closings)

    def closed(self) -> None:
        self.closings = min(self.closings + 1, _MOST_CLOSINGS)

    def had_room(self, seconds: float) -> None:
        """Note that the memory was not full for so long."""
        self._room_s = self._room_s + seconds if self.closings else 0.0
        if self._room_s >= FORGOTTEN_AFTER_S:
            self._room_s = 0.0
            self.closings -= 1
