"""What a decoder refuses."""

from playhead.errors import PlayheadError


class Undecodable(PlayheadError):
    """Bytes that are not what they were said to be."""

    def __init__(self, form: str, *, reason: str, hint: str | None = None) -> None:
        self.form, self.reason = form, reason
        super().__init__(f"cannot be decoded as {form}: {reason}", hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.form, self.reason, self.hint)


def _again(form: str, reason: str, hint: str | None) -> Undecodable:
    return Undecodable(form, reason=reason, hint=hint)
