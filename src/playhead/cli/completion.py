"""What the shell can complete: contexts, client properties, and the cluster's topics and groups.

Asked while somebody holds the Tab key: short deadlines, silence on any trouble, and an answer kept for
a few seconds so that the second Tab does not ask the cluster again. Nobody who types a word means to
reach what a project's file says, so no server is asked of which, or for which, such a file says anything.
"""

import contextlib
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise

from playhead import secrets
from playhead.config.context import Configuration, configure, contexts
from playhead.config.kafka_properties import KNOWN_PROPERTIES
from playhead.config.layers import Precedence
from playhead.errors import PlayheadError
from playhead.host import paths, private_files
from playhead.options.option import Completion

_ANSWER_WITHIN_S = 1.5
_KEPT_S = 20.0
# What every shell takes as one plain word. The names of groups are anybody's to choose who reaches the
# cluster, and a completed name is a part of a command line: `$(…)` in it would be run.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:/=@%+,-]*", re.ASCII)


def context_names(incomplete: str) -> list[str]:
    with contextlib.suppress(PlayheadError, OSError):
        return _fitting(contexts(), incomplete)
    return []


def property_names(incomplete: str) -> list[str]:
    return _fitting([f"{known.name}=" for known in KNOWN_PROPERTIES], incomplete)


def replay_ids(incomplete: str) -> list[str]:
    """Replays of this machine's journal."""
    from playhead.replay.journal import Journal

    with contextlib.suppress(PlayheadError, OSError):
        return _fitting(Journal().ids(), incomplete)
    return []


def standby_names(incomplete: str) -> list[str]:
    """The user's standby replays."""
    from playhead.standby.store import Standbys

    with contextlib.suppress(PlayheadError, OSError):
        return _fitting(Standbys().names(), incomplete)
    return []


def topic_names(incomplete: str) -> list[str]:
    """Topics of the cluster that the half-typed command line means."""

    def ask(configuration: Configuration) -> list[str]:
        from playhead.kafka.admin.client import Admin

        with Admin(configuration.kafka(), timeout_s=_ANSWER_WITHIN_S) as admin:
            return sorted(admin.cluster().topics)

    return _fitting(_kept("topics", ask), incomplete)


def group_names(incomplete: str) -> list[str]:
    """Consumer groups of the cluster that the half-typed command line means."""

    def ask(configuration: Configuration) -> list[str]:
        from playhead.kafka.admin.client import Admin
        from playhead.kafka.groups.describe import listed

        with Admin(configuration.kafka(), timeout_s=_ANSWER_WITHIN_S) as admin:
            return [group.group for group in listed(admin)]

    return _fitting(_kept("groups", ask), incomplete)


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    """Those that begin so and that no shell understands as anything but a word; others are to be typed."""
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def _kept(what: str, ask: Callable[[Configuration], list[str]]) -> list[str]:
    try:
        configuration = _configuration_so_far()
        said = configuration.kafka_properties.values()
        if any(found.place == Precedence.PROJECT for found in said):
            return []
        if secrets.PROMPT in (found.value for found in said):
            return []  # the Tab key is no moment to ask for a password
        connection = configuration.kafka()
        key = hashlib.sha256(f"{what} {connection.shown()}".encode()).hexdigest()[:16]
        file = paths.cache_dir() / "completion" / f"{key}.json"
        if file.exists() and time.time() - file.stat().st_mtime < _KEPT_S:
            return [str(name) for name in json.loads(file.read_text(encoding="utf-8"))]
        names = ask(configuration)
        with contextlib.suppress(OSError):
            private_files.folder(file.parent)
            private_files.write(file, json.dumps(names))
    except (PlayheadError, OSError, ValueError):
        return []
    return names


def _configuration_so_far() -> Configuration:
    """The connection as the words typed up to now say it."""
    words = _words_so_far()
    return configure(
        {
            "bootstrap_servers": _after(words, "-b", "--bootstrap-servers"),
            "kafka_config": _after(words, "--config"),
        },
        assignments=[b for a, b in pairwise(words) if a == "-X" and "=" in b],
        context=_after(words, "-c", "--context"),
    )


def _words_so_far() -> list[str]:
    typed = os.environ.get("COMP_WORDS", "")
    # bash takes words apart at : and =, and hands each piece over on a line of its own.
    typed = re.sub(r"\n([:=]+)(?:\n|$)", r"\1", typed)
    return typed.split() or sys.argv[1:]


def _after(words: list[str], *flags: str) -> str | None:
    for word, following in pairwise([*words, ""]):
        flag, equals, value = word.partition("=")
        if flag in flags and (value if equals else following):
            return value if equals else following
    return None


NAMES: dict[Completion, Callable[[str], list[str]]] = {
    "contexts": context_names,
    "properties": property_names,
    "topics": topic_names,
    "groups": group_names,
    "replays": replay_ids,
    "standbys": standby_names,
}
"""Of each kind that an option can name."""
