"""The guards of a configuration: read-only refuses writes, production requires the target's name.

The check happens where the writing begins, for every interface; the interface supplies the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass

from playhead.config.context import Configuration
from playhead.config.settings import BY_NAME
from playhead.errors import Refused


class ReadOnly(Refused):
    """The configuration refuses all writes."""

    def __init__(self, action: str, *, place: str, origin: str) -> None:
        self.action, self.origin = action, origin
        super().__init__(
            f"{place} is read-only ({origin}): {action} was not done", hint=_way_out(origin)
        )


class NotNamed(Refused):
    """The configuration is marked production, and the target's name was not given or is wrong."""

    def __init__(self, action: str, *, place: str, target: str, found: str | None) -> None:
        self.action, self.target, self.found = action, target, found
        told = "no name was given" if found is None else f"{found!r} was given"
        super().__init__(
            f"{place} is marked production: {action} needs the target's name {target!r}, and {told}",
            hint="type it when the command asks on a terminal, where --yes is not enough; from Python: "
            f"consent={target!r}",
        )


class CopiedBefore(Refused):
    """The target has the records already, and would have them twice."""

    def __init__(self, action: str, *, copies: str) -> None:
        self.action, self.copies = action, copies
        super().__init__(
            f"{action} would write records a second time, and was not done: {copies}",
            hint="to write them once more: --again, from Python again=True",
        )


@dataclass(frozen=True, slots=True)
class Question:
    """A change that needs consent before it begins."""

    action: str
    target: str
    """The name to type if the configuration is marked production."""
    place: str
    """A description of the configuration."""
    needs_name: bool
    """Whether it is marked production; then `True` is not enough."""
    is_final: bool = False
    """Whether the change cannot be undone."""
    copies: str = ""
    """Who has written the same records there before; a yes to all questions is not enough then."""


Consent = str | Callable[[Question], str | bool] | None
"""The target's name, or a function that answers a question with True, the target's name, or False."""


def refuse_read_only(action: str, configuration: Configuration) -> None:
    """Return if the configuration allows writes; otherwise raise `ReadOnly`."""
    if configuration.is_on("read_only"):
        origin = configuration.settings["read_only"].origin
        raise ReadOnly(action, place=_place_of(configuration), origin=origin)


def need_consent(
    action: str,
    target: str,
    configuration: Configuration,
    consent: Consent,
    *,
    is_final: bool = False,
    copies: Callable[[], str] = lambda: "",
) -> None:
    """Return if this may be written. Without a guard and without `consent`, it may, but not twice.

    `copies` says who wrote the same records there before. It may ask a server, so it is called last.
    """
    refuse_read_only(action, configuration)
    place, needs_name = _place_of(configuration), configuration.is_on("production")
    answer: str | bool | None
    if callable(consent):
        answer = consent(Question(action, target, place, needs_name, is_final, copies()))
        if answer is not True and answer != target:
            raise Refused(f"{action} was not done: the answer was not yes")
    else:
        answer = consent
    if needs_name and answer != target:
        named = answer if isinstance(answer, str) else None
        raise NotNamed(action, place=place, target=target, found=named)
    if not callable(consent) and (said := copies()):
        raise CopiedBefore(action, copies=said)


class Guard:
    """The guards of one change, checked by the functions that carry it out."""

    def __init__(self, configuration: Configuration, consent: Consent = None) -> None:
        self._configuration, self._consent = configuration, consent
        self._agreed: set[str] = set()

    def agree(self, action: str, *targets: str) -> None:
        """Ask once for all targets before the change begins; later calls of `need` do not ask again."""
        need_consent(action, ", ".join(targets), self._configuration, self._consent)
        self._agreed.update(targets)

    def need(self, action: str, target: str, *, is_final: bool = False) -> None:
        """Return if the target may be written."""
        if target not in self._agreed:
            need_consent(action, target, self._configuration, self._consent, is_final=is_final)


def _place_of(configuration: Configuration) -> str:
    named = configuration.context
    return f"context {named}" if named else "this configuration"


def _way_out(origin: str) -> str:
    """Return a hint on how to allow writes: a guard stays on until the place that set it is changed."""
    if origin == BY_NAME["read_only"].environment:
        return f"unset {origin}"
    if origin.startswith("context "):
        return "choose another context with -c, or change this one: playhead context edit"
    return f"take read_only out of {origin}"
