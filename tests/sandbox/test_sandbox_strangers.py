"""What another user of the machine, and the servers' own user, can do to a sandbox and its owner."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from playhead.sandbox import Sandbox
from playhead.sandbox import folder as ground

_PLANTED = {
    "kafka": ["server.properties", "log4j2.yaml", "server.out", "server.pid", "server.pid.new"],
    "postgres": ["password", "server.out", "server.pid", "server.pid.new"],
}


@pytest.mark.skipif(os.geteuid() != 0, reason="SECURITY TEST NOT RUN: it needs root and `nobody`")
def test_root_writes_nothing_where_the_servers_user_has_put_links(folder: Path) -> None:
    user = ground.server_user()
    assert user is not None
    victim = folder.parent / "victim"
    victim.write_text("precious")
    ground.prepare(folder, user)
    for server, names in _PLANTED.items():
        ground.give(folder / server, user)
        for name in names:
            subprocess.run(
                ["ln", "-s", str(victim), str(folder / server / name)], user=user.uid, check=True
            )
    box = Sandbox(folder)
    box.up()
    assert box.status().is_up
    foreign = [
        path
        for server in _PLANTED
        for path in (folder / server).rglob("*")
        if path.lstat().st_uid != user.uid
    ]
    assert foreign == [], "root has written inside a folder of the servers' user"
    secret = ("sandbox.json", "context.toml", "kafka.properties", "kafka.pid", "kafka.out", "lock")
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in secret} == {0o600}
    assert len(box.down()) == 2
    assert (victim.read_text(), victim.stat().st_uid) == ("precious", 0)
