"""What a context wants before anything is written: read-only refuses, production has the target named.

It is asked where the writing begins, whatever face leads there; a face brings the answer.
"""

from playhead.context import Configuration
from playhead.errors import Refused
from playhead.settings import BY_NAME


class ReadOnly(Refused):
    """The configuration refuses all writing."""

    def __init__(self, action: str, *, place: str, origin: str) -> None:
        self.action, self.origin = action, origin
        super().__init__(
            f"{place} is read-only ({origin}): {action} was not done", hint=_way_out(origin)
        )


class NotNamed(Refused):
    """The configuration is marked production, and the target's name was not given, or another one."""

    def __init__(self, action: str, *, place: str, target: str, found: str | None) -> None:
        self.action, self.target, self.found = action, target, found
        told = "nobody named it" if found is None else f"{found!r} was named"
        super().__init__(
            f"{place} is marked production: {action} needs the target's name {target!r}, and {told}",
            hint="type it when the command asks on a terminal, where --yes is not enough; from Python: "
            f"run(consent={target!r})",
        )


def place_of(configuration: Configuration) -> str:
    """The configuration, in words."""
    named = configuration.context
    return f"context {named}" if named else "this configuration"


def refuse_read_only(action: str, configuration: Configuration) -> None:
    """Return where the configuration lets things be written."""
    if configuration.is_on("read_only"):
        origin = configuration.settings["read_only"].origin
        raise ReadOnly(action, place=place_of(configuration), origin=origin)


def need_consent(
    action: str, target: str, configuration: Configuration, consent: str | None
) -> None:
    """Return when this may be written: `consent` is the target's name as somebody gave it."""
    refuse_read_only(action, configuration)
    if configuration.is_on("production") and consent != target:
        raise NotNamed(action, place=place_of(configuration), target=target, found=consent)


def _way_out(origin: str) -> str:
    """How to be allowed to write: a guard stays on until the place that says it is changed."""
    if origin == "environment":
        return f"unset {BY_NAME['read_only'].environment}"
    if origin.startswith("context "):
        return "choose another context with -c, or change this one: playhead context edit"
    return f"take read_only out of {origin}"
