"""Where Playhead stores its files: a user's XDG folders, or the system's folders for root."""

import os
import shlex
from pathlib import Path

from playhead.errors import BadValue, Refused, UsageError
from playhead.host.folders import of_another

_SANDBOX_DIR = "PLAYHEAD_SANDBOX_DIR"
# The sandbox's servers of root run as an unprivileged user, who cannot enter root's home.
_ROOT_DEFAULTS = {
    "XDG_CACHE_HOME": Path("/var/cache"),
    "XDG_STATE_HOME": Path("/var/lib"),
}
_USER_DEFAULTS = {
    "XDG_CACHE_HOME": "~/.cache",
    "XDG_STATE_HOME": "~/.local/state",
    "XDG_CONFIG_HOME": "~/.config",
}


def _xdg(variable: str) -> Path:
    value = os.environ.get(variable, "")
    # The standard says to ignore a relative one, which would be another folder wherever a command runs.
    if Path(value).is_absolute():
        return Path(value) / "playhead"
    if os.geteuid() == 0 and variable in _ROOT_DEFAULTS:
        return _ROOT_DEFAULTS[variable] / "playhead"
    return at_home(_USER_DEFAULTS[variable]) / "playhead"


def cache_dir() -> Path:
    """Return the folder for files that can be created again: jars, the engine's start-up cache, catalogs.

    Its owner could put links there, behind which files are deleted, and catalogs that hide records.
    """
    folder = _xdg("XDG_CACHE_HOME")
    _refuse_anothers(folder, "the folder of Playhead's caches", "XDG_CACHE_HOME")
    return folder


def state_dir() -> Path:
    """Return the folder for lasting files: the sandbox's data, the journal of runs, logs.

    The owner of a folder on the way could put links there, and the context of another sandbox.
    """
    folder = _xdg("XDG_STATE_HOME")
    _refuse_anothers(folder, "the folder of Playhead's state", "XDG_STATE_HOME")
    return folder


def config_file() -> Path:
    """Return the file of the user's contexts: it names servers, and files whose content is sent to them."""
    file = _xdg("XDG_CONFIG_HOME") / "config.toml"
    _refuse_anothers(file, "the file of your contexts", "XDG_CONFIG_HOME")
    return file


def _refuse_anothers(path: Path, what: str, variable: str) -> None:
    """Refuse a path that another user controls, as under `sudo` with the caller's HOME.

    Only owners count: a container's volume is often open to everyone, in a container that has one user.
    """
    reason = of_another(path)
    if reason is not None:
        raise Refused(
            f"{what} is under another user's control: {reason}",
            hint=f"set {variable} to a folder of your own",
        )


def standby_dir() -> Path:
    """Return the folder of the user's standby replays."""
    return config_file().with_name("standby")


def sandbox_dir() -> Path:
    """Return the folder of the default sandbox."""
    value = os.environ.get(_SANDBOX_DIR)
    return at_home(value).absolute() if value else state_dir() / "sandbox"


def sandbox_command(verb: str, directory: Path) -> str:
    """Return the command that does this with the sandbox in a folder."""
    named = "" if directory == sandbox_dir() else f" --dir {shlex.quote(str(directory))}"
    return f"playhead sandbox {verb}{named}"


def sandbox_context() -> Path:
    """Return the context file that a running sandbox writes."""
    return sandbox_dir() / "context.toml"


def sandbox_dir_is_whole() -> bool:
    """Whether it is the same folder wherever a command runs."""
    value = os.environ.get(_SANDBOX_DIR)
    return not value or at_home(value).is_absolute()


def at_home(text: str) -> Path:
    """The path with `~` and `~NAME` replaced by the home that they mean."""
    try:
        path = Path(text).expanduser()
    except (RuntimeError, ValueError) as exc:
        raise UsageError(f"{text!r} begins with the home of a user who has none here") from exc
    if text.startswith("~") and not path.is_absolute():
        raise UsageError(
            f"{text!r} begins with your home, and HOME is a relative path: another folder wherever a command runs",
            hint="set HOME to the whole path of your home",
        )
    return path


def of_variable(name: str) -> Path | None:
    """Return the path in an environment variable; a relative one would be another in each folder, a clone's too."""
    value = os.environ.get(name)
    if not value:
        return None
    if not Path(value).is_absolute():
        needed = "a whole path: a relative one depends on the folder of each command"
        raise BadValue(name, found=value, needed=needed, where="the environment")
    return Path(value)
