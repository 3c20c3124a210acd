"""A cursor over a text in one of our grammars, and the error that points into the text."""

from dataclasses import dataclass

from playhead.errors import UsageError

_SHOWN = 72


class NotUnderstood(UsageError):
    """Part of a text cannot be parsed; the error points at the first wrong character."""

    def __init__(
        self, written: str, *, where: str, at: int, reason: str, hint: str | None = None
    ) -> None:
        self.written, self.where, self.at, self.reason = written, where, at, reason
        # A pointer helps only under one short line of characters of equal width.
        first = max(0, at - _SHOWN // 2) if len(written) > _SHOWN else 0
        line = "".join(c if c.isprintable() else "?" for c in written[first : first + _SHOWN])
        pointer = f"\n    {line}\n    {' ' * (at - first)}^" if line else ""
        super().__init__(f"{where} cannot be understood: {reason}{pointer}", hint=hint)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The part `[first, stop)` of a text; `where` names the value for errors."""

    written: str
    where: str
    first: int
    stop: int

    @classmethod
    def of(cls, written: str, where: str) -> "Cursor":
        return cls(written, where, 0, len(written)).strip()

    @property
    def text(self) -> str:
        return self.written[self.first : self.stop]

    def cut(self, first: int, stop: int | None = None) -> "Cursor":
        """Return a part of this part, counted from its first character."""
        end = self.stop if stop is None else self.first + stop
        return Cursor(self.written, self.where, self.first + first, end)

    def strip(self) -> "Cursor":
        """Return the part without surrounding white space."""
        text = self.text
        left = len(text) - len(text.lstrip())
        return self.cut(left, max(left, len(text.rstrip())))

    def refuse(self, reason: str, *, at: int = 0, hint: str | None = None) -> NotUnderstood:
        """Return an error that points at a character, counted from this part's first one."""
        return NotUnderstood(
            self.written, where=self.where, at=self.first + at, reason=reason, hint=hint
        )

    def found(self, at: int) -> str:
        """Return the text at this position, for an error."""
        text = self.text
        return repr(text[at]) if at < len(text) else "the end"
