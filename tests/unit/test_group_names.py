"""A group's name that has no bytes in UTF-8: the client library ends the process over it, so it is never asked."""

from typing import Any, cast

import pytest

from playhead.errors import BadValue
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.commit import commit
from playhead.kafka.groups.describe import committed, delete, described

NOBODY = cast(Admin, type("Nobody", (), {"timeout_s": 1.0})())


@pytest.mark.parametrize("name", ["\udc80", "a\ud800b"])
def test_it_is_refused_before_the_library_is_asked(name: str) -> None:
    ways: list[Any] = [
        lambda: described(NOBODY, ["g", name]),
        lambda: committed(NOBODY, name),
        lambda: delete(NOBODY, name),
        lambda: commit(NOBODY, name, {("laps", 0): cast(Any, None)}),
    ]
    for way in ways:
        with pytest.raises(BadValue, match="UTF-8"):
            way()
