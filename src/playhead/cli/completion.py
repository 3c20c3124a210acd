"""What the shell can complete: contexts, client properties, and the cluster's topics and groups.

The user is holding the Tab key: deadlines are short, errors are silent, and an answer is kept for a few
seconds, so that a second Tab does not ask the cluster again. Typing must not reach a server named by an
untrusted project file, so no server is asked if such a file has any say in the connection.
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

from playhead import references
from playhead.config.context import Configuration, configure, contexts
from playhead.config.kafka_properties import KNOWN_PROPERTIES
from playhead.config.layers import Precedence
from playhead.errors import PlayheadError
from playhead.host import paths, private_files
from playhead.options.option import Completion
from playhead.systems import MakesSource, MakesTarget, schemes, system_named

_ANSWER_WITHIN_S = 1.5
_KEPT_S = 20.0
# Names that every shell takes as one plain word. Anyone on the cluster can choose a group's name,
# and a completed name becomes part of a command line, where `$(…)` would run.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:/=@%+,-]*", re.ASCII)


def context_names(incomplete: str) -> list[str]:
    with contextlib.suppress(PlayheadError, OSError):
        return _fitting(contexts(), incomplete)
    return []


def property_names(incomplete: str) -> list[str]:
    return _fitting([f"{known.name}=" for known in KNOWN_PROPERTIES], incomplete)


def replay_ids(incomplete: str) -> list[str]:
    """Return the replays of this machine's journal."""
    from playhead.replay.journal import Journal

    with contextlib.suppress(PlayheadError, OSError):
        return _fitting(Journal().ids(), incomplete)
    return []


def standby_names(incomplete: str) -> list[str]:
    """Return the user's standby replays."""
    from playhead.standby.store import Standbys

    with contextlib.suppress(PlayheadError, OSError):
        return _fitting(Standbys().names(), incomplete)
    return []


def topic_names(incomplete: str) -> list[str]:
    """Return the topics of the cluster that the typed command uses."""

    def ask(configuration: Configuration) -> list[str]:
        from playhead.kafka.admin.client import Admin

        with Admin(configuration.kafka(), timeout_s=_ANSWER_WITHIN_S) as admin:
            return sorted(admin.cluster().topics)

    return _fitting(_kept("topics", ask), incomplete)


def sources(incomplete: str) -> list[str]:
    """Return endpoints that can be a source: topics of the cluster, and the other systems."""
    return _endpoints(incomplete, MakesSource)


def targets(incomplete: str) -> list[str]:
    """Return endpoints that can be a target."""
    return _endpoints(incomplete, MakesTarget)


def _endpoints(incomplete: str, ability: type[MakesSource | MakesTarget]) -> list[str]:
    system, colon, name = incomplete.partition(":")
    if colon:
        return [f"{system}:{topic}" for topic in topic_names(name)] if system == "kafka" else []
    with contextlib.suppress(PlayheadError):
        able = [scheme for scheme in schemes() if isinstance(system_named(scheme), ability)]
        return _fitting([f"{scheme}:" for scheme in able], incomplete)
    return []


def group_names(incomplete: str) -> list[str]:
    """Return the consumer groups of the cluster that the typed command uses."""

    def ask(configuration: Configuration) -> list[str]:
        from playhead.kafka.admin.client import Admin
        from playhead.kafka.groups.describe import listed

        with Admin(configuration.kafka(), timeout_s=_ANSWER_WITHIN_S) as admin:
            return [group.group for group in listed(admin)]

    return _fitting(_kept("groups", ask), incomplete)


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names with this prefix that every shell takes as one word."""
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def _kept(what: str, ask: Callable[[Configuration], list[str]]) -> list[str]:
    try:
        configuration = _configuration_so_far()
        said = configuration.kafka_properties.values()
        if configuration.is_of_project or any(each.place == Precedence.PROJECT for each in said):
            return []
        if references.PROMPT in (found.value for found in said):
            return []  # Completion must not ask for a password.
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


_BROKERS = ("-b", "--bootstrap-servers", "--bootstrap-server")


def _configuration_so_far() -> Configuration:
    """Return the configuration of the words typed so far."""
    words = _words_so_far()
    return configure(
        {
            "bootstrap_servers": ",".join(_all_after(words, *_BROKERS)) or None,
            "kafka_config": _after(words, "--config", "--command-config"),
        },
        assignments=[b for a, b in pairwise(words) if a == "-X" and "=" in b],
        context=_after(words, "-c", "--context"),
    )


def _words_so_far() -> list[str]:
    typed = os.environ.get("COMP_WORDS", "")
    # bash splits words at : and =, and passes each part on separately.
    typed = re.sub(r"\n([:=]+)(?:\n|$)", r"\1", typed)
    return typed.split() or sys.argv[1:]


def _after(words: list[str], *flags: str) -> str | None:
    return next(iter(_all_after(words, *flags)), None)


def _all_after(words: list[str], *flags: str) -> list[str]:
    """Return all values that these flags have so far."""
    found = []
    for word, following in pairwise([*words, ""]):
        flag, equals, value = word.partition("=")
        if flag in flags:
            found.append(value if equals else following)
    return [value for value in found if value]


NAMES: dict[Completion, Callable[[str], list[str]]] = {
    "contexts": context_names,
    "properties": property_names,
    "topics": topic_names,
    "sources": sources,
    "targets": targets,
    "groups": group_names,
    "replays": replay_ids,
    "standbys": standby_names,
}
"""The function for each kind of value that an option can name."""
