"""Starts the JVM that PySpark uses, directly and without Spark's shell scripts.

Spark's own launcher requires `--add-modules=jdk.incubator.vector`, which a small bundled runtime lacks.
Started here, any Java 17 to 25 works, without a shell and with the start-up cache.
"""

import contextlib
import os
import signal
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from playhead.errors import PlayheadError
from playhead.host import jars, paths, private_files
from playhead.host.runtimes import Java, find_java, find_spark_home, workers_path
from playhead.spark.engine_folder import EngineFolder

# Spark's org.apache.spark.launcher.JavaModuleOptions of 4.2.0, without jdk.incubator.vector.
_MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.lang",
            "java.lang.invoke",
            "java.lang.reflect",
            "java.io",
            "java.net",
            "java.nio",
            "java.util",
            "java.util.concurrent",
            "java.util.concurrent.atomic",
            "jdk.internal.ref",
            "sun.nio.ch",
            "sun.nio.cs",
            "sun.util.calendar",
        )
    ),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
)
# Options that depend on the Java release.
_UNSAFE_ALLOWED, _UNSAFE_SINCE = "--sun-misc-unsafe-memory-access=allow", 23
_ACTION_OPENED, _ACTION_UNTIL = "--add-opens=java.base/sun.security.action=ALL-UNNAMED", 23
# Registers machine learning functions by reflection in every new session, a third of its time;
# nothing here uses them. See docs/decisions/0004-engine.md.
_LEFT_OUT = "spark-mllib_"
_LOGGING = Path(__file__).with_name("log4j2.properties")
_CONNECTION = "connection"
_READY_WITHIN_S = 120.0
_GONE_WITHIN_S = 10.0
_END_SEEN_WITHIN_S = 0.5
_KEPT_LOGS = 10
# After an OutOfMemoryError, a JVM that continues has lost a thread, often the one that all others
# wait for.
_ENDS_WHEN_FULL = "-XX:+ExitOnOutOfMemoryError"
# The JVM's exit status in that case, and Spark's if it meets the error first.
_FULL = {3, 52}
_FULL_WORDS = "java.lang.OutOfMemoryError"
_FULL_SAID_WITHIN = 5_000
_REASON_ENDING = "this command is ending"


class EngineDidNotStart(PlayheadError):
    """The JVM ended or did not answer before it was ready; contains the end of its log."""

    def __init__(self, *, reason: str, log: Path) -> None:
        self.reason, self.log = reason, log
        tail = "".join(f"\n    {line}" for line in _tail(log))
        super().__init__(
            f"the Spark engine did not start: {reason}{tail}",
            hint=f"read the whole log in {log}; `playhead doctor` checks the runtime and the jars",
        )


class EngineKilled(EngineDidNotStart):
    """The JVM was killed before its session was there; not by us."""

    def __init__(self, log: Path) -> None:
        super().__init__(reason="it was killed", log=log)
        self.hint = (
            f"the machine may have run out of memory: check `dmesg`; the engine's log is {log}"
        )


@dataclass(frozen=True, slots=True)
class JvmCommand:
    """Everything that decides how the JVM starts; equal commands can share a start-up cache,
    whatever their memory.
    """

    java: Java
    spark_home: Path
    class_path: tuple[Path, ...]
    options: tuple[str, ...]
    memory: str


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running JVM, and how PySpark reaches it."""

    process: "subprocess.Popen[bytes]"
    port: int
    secret: str
    log: Path
    memory: str
    folder: EngineFolder

    def ran_out_of_memory(self) -> bool:
        """Return whether it ended because its heap was full."""
        if self.process.poll() not in _FULL:
            return False
        return any(_FULL_WORDS in line for line in _tail(self.log, _FULL_SAID_WITHIN))

    def was_killed(self) -> bool:
        """Return whether something else than this process has killed it."""
        return was_killed(self.process)

    def close(self, patience_s: float = _GONE_WITHIN_S) -> None:
        """Let the JVM end by closing its stdin, and make sure that it does."""
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            kill(self.process)
            self.process.wait()
        self.folder.remove()


def blueprint_for(memory: str) -> JvmCommand:
    """Return the command for a JVM with this much heap on this machine."""
    java, spark_home = find_java(), find_spark_home()
    own = (jar for jar in sorted(spark_home.glob("jars/*.jar")) if _LEFT_OUT not in jar.name)
    options = [*_MODULE_OPTIONS, "-XX:-UsePerfData"]
    if java.feature_release >= _UNSAFE_SINCE:
        options.append(_UNSAFE_ALLOWED)
    if java.feature_release <= _ACTION_UNTIL:
        options.append(_ACTION_OPENED)
    return JvmCommand(java, spark_home, (*own, *jars.ensure("engine")), tuple(options), memory)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a JVM, and the helper that writes a start-up cache for it."""
    if process.poll() is None:
        _living.discard(process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def was_killed(process: "subprocess.Popen[bytes]") -> bool:
    """Return whether a JVM was killed, and not by this process; a broken connection is noticed first."""
    if process not in _living:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_END_SEEN_WITHIN_S) == -signal.SIGKILL
    return False


_living: "weakref.WeakSet[subprocess.Popen[bytes]]" = weakref.WeakSet()
_is_ending = False


def kill_all(*, for_good: bool) -> bool:
    """Kill the JVMs of this process; return whether there were any.

    With `for_good`, no other one starts: code that waits for a killed one would try again.
    """
    global _is_ending  # noqa: PLW0603
    _is_ending = _is_ending or for_good
    living = [each for each in _living if each.poll() is None]
    for each in living:
        kill(each)
    return bool(living)


def launch(
    blueprint: JvmCommand, conf: Mapping[str, str], *, more_options: Sequence[str] = ()
) -> "Launch":
    """Start a JVM, which boots while the caller continues; see `Launch.wait`."""
    log = _new_log()
    if _is_ending:
        raise EngineDidNotStart(reason=_REASON_ENDING, log=log)
    folder = EngineFolder()
    if conf.get("spark.master", "local").startswith("local"):
        conf = dict(conf) | folder.settings()
    options = [*more_options, _ENDS_WHEN_FULL, f"-XX:ErrorFile={log}.crash"]
    options.append(f"-Djava.io.tmpdir={folder.path}")
    try:
        with private_files.opened(log, "wb") as output:
            process = subprocess.Popen(
                _command(blueprint, conf, options),
                # The JVM ends when its stdin closes: however we end, it does not stay.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(blueprint, folder.path / _CONNECTION),
                pass_fds=(folder.lock,),
                # We handle Ctrl-C; the JVM must live to finish its slice.
                start_new_session=True,
            )
    except BaseException:
        folder.remove()
        raise
    _living.add(process)
    return Launch(process, folder, log, blueprint.memory)


class Launch:
    """A starting JVM; without a `wait` to the end, it ends with this process."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", folder: EngineFolder, log: Path, memory: str
    ) -> None:
        self.process, self.log, self._memory = process, log, memory
        self._folder, self._info = folder, folder.path / _CONNECTION
        self._end = weakref.finalize(self, _end_booting, process, folder)

    def wait(self) -> Gateway:
        """Return the gateway as soon as the JVM has written its port and secret."""
        deadline = time.monotonic() + _READY_WITHIN_S
        try:
            while not self._info.exists():
                if self.process.poll() is not None:
                    if was_killed(self.process):
                        raise EngineKilled(self.log)
                    status = self.process.returncode
                    raise EngineDidNotStart(reason=f"it ended with status {status}", log=self.log)
                if time.monotonic() > deadline:
                    raise EngineDidNotStart(
                        reason=f"no answer within {_READY_WITHIN_S:g} s", log=self.log
                    )
                time.sleep(0.01)
            port, secret = _read_connection(self._info)
        except BaseException:
            self.abandon()
            raise
        self._end.detach()
        self._info.unlink(missing_ok=True)
        return Gateway(self.process, port, secret, self.log, self._memory, self._folder)

    def abandon(self) -> None:
        """End a JVM that is not needed."""
        self._end()


def _end_booting(process: "subprocess.Popen[bytes]", folder: EngineFolder) -> None:
    """End the JVM first: one that cannot write its secret into its folder never ends by itself."""
    kill(process)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
    folder.remove()


def _command(blueprint: JvmCommand, conf: Mapping[str, str], options: Sequence[str]) -> list[str]:
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    class_path = [*_conf_dirs(blueprint.spark_home), *(str(jar) for jar in blueprint.class_path)]
    return [
        str(blueprint.java.program),
        *blueprint.options,
        f"-Xmx{blueprint.memory}",
        *options,
        f"-Dlog4j2.configurationFile={_LOGGING}",
        "-cp",
        os.pathsep.join(class_path),
        "org.apache.spark.deploy.SparkSubmit",
        *settings,
        "pyspark-shell",
    ]


def _conf_dirs(spark_home: Path) -> list[str]:
    """Return the configuration folders that Spark's scripts would put on the class path."""
    named = [paths.of_variable(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    own = paths.of_variable("SPARK_CONF_DIR") or spark_home / "conf"
    return [str(folder) for folder in [own, *named] if folder is not None and folder.is_dir()]


def _environment(blueprint: JvmCommand, info: Path) -> dict[str, str]:
    # Not SPARK_HOME: with it, every worker reads PySpark from a zip file and compiles it again.
    own = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_DIRS"}
    return own | {
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
        "JAVA_HOME": str(blueprint.java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_CONNECT_MODE": "0",
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
        "SPARK_SCALA_VERSION": "2.13",
        **workers_path(),
    }


def _read_connection(info: Path) -> tuple[int, str]:
    """Return the port and the secret, each length-prefixed by the JVM's DataOutputStream."""
    content = info.read_bytes()
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode()


def _new_log() -> Path:
    folder = private_files.folder(paths.state_dir() / "logs")
    old = sorted(folder.glob("engine-*.log*"), key=lambda file: file.stat().st_mtime)
    for file in old[:-_KEPT_LOGS]:
        file.unlink(missing_ok=True)
    return folder / f"engine-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.log"


def _tail(log: Path, lines: int = 15) -> list[str]:
    with contextlib.suppress(OSError):
        return log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    return []
