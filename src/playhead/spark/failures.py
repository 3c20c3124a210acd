"""What Spark says of a failure, in our words: an error of a task's own, or what the engine has lost."""

import json

from playhead.errors import PlayheadError, Unavailable
from playhead.host.clock import SystemClock, wait_until

_MARK = "PLAYHEAD-ERROR "
OUT_OF_REACH = "PLAYHEAD-TIME-OUT-OF-REACH"
"""What our own expressions say of a time that Spark has not kept as it was."""
_END_NOTED_WITHIN_S = 2.0
# What Spark says, in its own words, when something is gone that it cannot replace.
_LOST = {
    "a worker process": (
        "Python worker exited unexpectedly",
        "PYTHON_WORKER_EXITED",
        "Python worker failed to connect back",
        "java.io.EOFException",
        "Connection reset",
        "Broken pipe",
    ),
    "an executor": ("ExecutorLostFailure", "executor loss", "Executor heartbeat timed out"),
    "its cluster": (
        "SparkContext was shut down",
        "stopped SparkContext",
        "All masters are unresponsive",
        "StatusCode.UNAVAILABLE",
        "INVALID_HANDLE.SESSION_NOT_FOUND",
        "NO_ACTIVE_SESSION",
    ),
}
_FULL = ("java.lang.OutOfMemoryError", "OutOfMemoryException", "SparkOutOfMemoryError")
_OVERFLOW = ("java.lang.ArithmeticException: long overflow", OUT_OF_REACH)


class TaskFailed(PlayheadError):
    """A task of the run failed for a reason that trying again would not change."""

    def __init__(self, message: str, *, hint: str | None, exit_code: int) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class TaskAway(Unavailable):
    """A task of the run lost a server; what it had not committed is still to be done."""


class EngineLost(Unavailable):
    """A worker, an executor or the engine itself has ended, and could not say why."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the engine lost {what}",
            hint="often it was short of memory: `dmesg`, or the cluster's own log, may tell; "
            "what is committed stays, and `playhead resume` goes on from there",
        )


class EngineFailed(TaskFailed):
    """The engine stopped with an error of its own, or of one of its own clients."""


class EngineOutOfMemory(EngineFailed):
    """The engine needed more memory than it has; with as much again it would fail again."""

    def __init__(self, memory: str | None) -> None:
        self.memory = memory
        has = f"; it has {memory}" if memory else ""
        way = "a larger --spark-memory (PLAYHEAD_SPARK_MEMORY)"
        way = way if memory else "more spark.driver.memory or spark.executor.memory"
        super().__init__(
            f"the engine ran out of memory{has}",
            hint=f"give it {way}; what is committed stays: `playhead resume`, or the same "
            "`playhead live`, goes on from there",
            exit_code=PlayheadError.exit_code,
        )


class WorkerOutOfMemory(PlayheadError):
    """A process of Python's that reads or writes for the engine could have no more memory."""

    def __init__(self) -> None:
        super().__init__(
            "a worker process of the engine ran out of memory",
            hint="give it more, or fewer such workers: --master 'local[1]'; "
            "what is committed stays, and `playhead resume` goes on from there",
        )


class TimeOutOfReach(EngineFailed):
    """A time that Spark's own type for times cannot hold as it is."""


def failure(exc: Exception) -> PlayheadError:
    """What the task itself raised, found in what Spark makes of it; or what Spark has lost."""
    if isinstance(exc, PlayheadError):
        return exc
    text = str(exc)
    at = text.find(_MARK)
    if at < 0:
        return _foreign(exc, text)
    document, _ = json.JSONDecoder().raw_decode(text, at + len(_MARK))
    if document.pop("is_away"):
        return TaskAway(document["message"], hint=document["hint"])
    message = document.pop("message")
    return TaskFailed(message, **document)


def as_text(error: PlayheadError) -> str:
    """A task's error in a form that `failure` finds again in whatever Spark wraps around it."""
    return _MARK + json.dumps(
        {
            "message": error.message,
            "hint": error.hint,
            "exit_code": error.exit_code,
            "is_away": isinstance(error, Unavailable),
        }
    )


def of_the_engine(exc: Exception) -> PlayheadError | None:
    """Why the engine cannot go on, when that is what the error means; None for any other one."""
    from playhead.spark import session

    if _has_ended(exc):
        return _ended()
    if any(phrase in str(exc) for phrase in _FULL):
        return EngineOutOfMemory(session.memory())
    return None


def _ended() -> PlayheadError:
    from playhead.spark import session

    if session.ran_out_of_memory():
        return EngineOutOfMemory(session.memory())
    return EngineLost("its Java process")


def _foreign(exc: Exception, text: str) -> PlayheadError:
    if (ours := of_the_engine(exc)) is not None:
        return ours
    for what, phrases in _LOST.items():
        if any(phrase in text for phrase in phrases):
            return EngineLost(what)
    # The JVM's stack is for whoever reports it: it stays in the chain, which -vv shows.
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    first = (causes[-1] if causes else text.strip().partition("\n")[0]).removeprefix("Caused by: ")
    kind = TimeOutOfReach if any(phrase in text for phrase in _OVERFLOW) else EngineFailed
    return kind(
        f"the engine failed with {type(exc).__name__}: {first[:500]}",
        hint="-vv shows all that it said; what is committed stays",
        exit_code=PlayheadError.exit_code,
    )


def _has_ended(exc: Exception) -> bool:
    """Whether the connection to the engine broke because that has ended; its end may be noted later."""
    from playhead.spark import session

    if not isinstance(exc, ConnectionError | EOFError) and "py4j" not in type(exc).__module__:
        return False
    deadline_s = _END_NOTED_WITHIN_S if not _is_said_by_java(exc) else 0
    clock = SystemClock()
    return bool(wait_until(session.has_died, deadline_s=deadline_s, clock=clock, every_s=0.02))


def _is_said_by_java(exc: Exception) -> bool:
    return type(exc).__name__ == "Py4JJavaError"
