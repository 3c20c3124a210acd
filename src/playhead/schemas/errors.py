"""The error of bytes that cannot be decoded."""

from playhead.errors import PlayheadError


class Undecodable(PlayheadError):
    """Bytes that do not have the expected form."""

    def __init__(self, form: str, *, reason: str, hint: str | None = None) -> None:
        self.form, self.reason = form, reason
        super().__init__(f"cannot be decoded as {form}: {reason}", hint=hint)
