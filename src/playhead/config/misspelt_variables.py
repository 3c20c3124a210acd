"""Names variables of the environment that look like those of settings, and set nothing."""

import os
from difflib import get_close_matches
from typing import Final

from playhead.config import exposed_logins
from playhead.config.settings import SETTINGS
from playhead.errors import UsageError

_PREFIX: Final = "PLAYHEAD_"
_CONTEXT: Final = "PLAYHEAD_CONTEXT"
_NEAR: Final = 0.8
_MEANT: Final = {
    word: variable
    for variable, names in [
        (_CONTEXT, ["CONTEXT"]),
        *(
            (each.environment, [each.environment.removeprefix(_PREFIX), each.name.upper()])
            for each in SETTINGS
            if each.environment
        ),
    ]
    for word in names
}
_GUARDS: Final = {each.environment for each in SETTINGS if each.is_guard}


def find_misspelt() -> None:
    """Warn of each; refuse one that was meant to switch on a guard, because the command would run without it."""
    for name in sorted(os.environ):
        if not name.startswith(_PREFIX) or name in _MEANT.values():
            continue
        for word in get_close_matches(name.removeprefix(_PREFIX), _MEANT, n=1, cutoff=_NEAR):
            text = f"the variable {name} sets nothing; {_MEANT[word]} does"
            if _MEANT[word] in _GUARDS:
                raise UsageError(text, hint=f"set {_MEANT[word]} instead, or unset {name}")
            exposed_logins.warn(text)
