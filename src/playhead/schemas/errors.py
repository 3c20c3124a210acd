"""The error of bytes that cannot be decoded."""

from playhead import secrets
from playhead.errors import PlayheadError


class Undecodable(PlayheadError):
    """Bytes that do not have the expected form."""

    def __init__(self, form: str, *, reason: str, hint: str | None = None) -> None:
        # A schema may have in it what its registry was sent.
        self.form, self.reason = form, secrets.redact(reason)
        super().__init__(f"cannot be decoded as {form}: {self.reason}", hint=hint)
