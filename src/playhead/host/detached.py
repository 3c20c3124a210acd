"""Starts processes that are meant to outlive the one that starts them."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any


class Detached(subprocess.Popen[bytes]):
    """A process in a session of its own: no Ctrl-C reaches it, and nobody has to wait for it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        output: "IO[bytes] | int" = subprocess.DEVNULL,
        **more: Any,
    ) -> None:
        super().__init__(
            command,
            cwd=directory,
            env=environment,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **more,
        )

    def __del__(self) -> None:
        """Nothing: that it still runs when we forget it is what it is for, not a leak to warn of."""
