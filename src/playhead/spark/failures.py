"""Translates Spark's failures: an error of a task, or the loss of a part of the engine."""

import json
import re
from secrets import token_hex

from playhead import secrets
from playhead.errors import PlayheadError, Unavailable
from playhead.host.clock import SystemClock, wait_until

MARK = f"PLAYHEAD-ERROR-{token_hex(16)} "
"""Before the error of a task in Spark's, which also quotes records and servers: they cannot know it."""
OUT_OF_REACH = "PLAYHEAD-OUT-OF-REACH"
"""Raised by our own expressions for a time or a header's name that Spark has changed."""
_END_NOTED_WITHIN_S = 2.0
# Spark's words around a cause. The cause itself may quote a record, so only its beginning counts.
_AROUND = re.compile(
    r"An error occurred while calling [^\n]*\n: "
    r"|\[STREAM_FAILED\] Query \[[^\n]*?\] terminated with exception: "
    r"|\(?org\.apache\.spark\.SparkException(?:: |\) )"
    r"|Job aborted due to stage failure: "
    r"|Task \d+ in stage [\d.]+ failed \d+ times, most recent failure: "
    r"|Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^()\n]*\): "
    r"|Exception thrown in awaitResult: ?\n(?:\tat [^\n]*\n)*Caused by: "
    r"|java\.util\.concurrent\.ExecutionException: "
)
_CLUSTER = "its cluster"
# How a cause begins when Spark loses something that it cannot replace.
_LOST = {
    "a worker process": re.compile(
        r"Python worker exited unexpectedly|\[?PYTHON_WORKER_EXITED"
        r"|Python worker failed to connect back|java\.io\.EOFException"
        r"|java\.(?:net\.Socket|io\.IO)Exception: (?:Connection reset|Broken pipe)"
        # An error outside of our tasks, which quote a record only behind their mark.
        r"|org\.apache\.spark\.api\.python\.PythonException: (?s:.*)(?:Connection reset|Broken pipe)"
    ),
    "an executor": re.compile(
        r"ExecutorLostFailure|Executor heartbeat timed out|[^\n:]*executor loss"
    ),
    _CLUSTER: re.compile(
        r"Job \d+ cancelled because SparkContext was shut down"
        r"|java\.lang\.IllegalStateException: [\w ]*(?:stopped SparkContext|SparkContext was shut down)"
        r"|java\.lang\.NullPointerException: [^\n]*\"org\.apache\.spark\.SparkContext\.\w+\(\)\" is null"
        r"|All masters are unresponsive"
        r"|<[^\n]* of RPC that terminated with:\s+status = StatusCode\.UNAVAILABLE"
        # A Spark Connect server that was started again does not know our session or job.
        r"|\[(?:INVALID_HANDLE\.\w+|RESPONSE_ALREADY_RECEIVED|NO_ACTIVE_SESSION|SESSION_OR_CONTEXT_NOT_EXISTS)\]"
    ),
}
# Python's own account of an error: its last line, which alone is not indented, is the reason.
_IN_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
_STACK_FULL = "java.lang.StackOverflowError"
_FULL = re.compile(r"[\w.]*\.(?:OutOfMemoryError|OutOfMemoryException|SparkOutOfMemoryError)\b")
# Anywhere: after a wrong guess, the records are read in another way, and nothing is waited for.
_OVERFLOW = re.compile(rf"java\.lang\.ArithmeticException: long overflow|{OUT_OF_REACH}")


class TaskFailed(PlayheadError):
    """A task failed, and a retry would fail too."""

    def __init__(self, message: str, *, hint: str | None, exit_code: int) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class TaskAway(Unavailable):
    """A task lost a server; its uncommitted work is still to be done."""


class EngineLost(Unavailable):
    """A worker, an executor or the engine ended without a reason."""

    def __init__(self, what: str) -> None:
        self.has_lost_all = what == _CLUSTER
        super().__init__(
            f"the engine lost {what}",
            hint="it may have run out of memory: check `dmesg` or the cluster's log; "
            "committed data stay, and `playhead resume` continues",
        )


class StackFull(TaskFailed):
    """A function called itself too often for a record; it would again."""

    def __init__(self) -> None:
        super().__init__(
            "an expression needs more stack for a record than the engine has",
            hint="a pattern that repeats a group, such as (a|b)*, needs some for each character of a long text: "
            "write [ab]*, or look at a part of the text: substr(value, 1, 1000); committed data stay",
            exit_code=PlayheadError.exit_code,
        )


class EngineFailed(TaskFailed):
    """The engine stopped with an error of its own, or of one of its clients."""


class EngineOutOfMemory(EngineFailed):
    """The engine needed more memory than it has; a retry with the same memory would fail too."""

    def __init__(self, memory: str | None) -> None:
        self.memory = memory
        has = f"; it has {memory}" if memory else ""
        way = "a larger --spark-memory (PLAYHEAD_SPARK_MEMORY)"
        way = way if memory else "more spark.driver.memory or spark.executor.memory"
        super().__init__(
            f"the engine ran out of memory{has}",
            hint=f"give it {way}; committed data stay: continue with `playhead resume`, or "
            "run the same `playhead live` again",
            exit_code=PlayheadError.exit_code,
        )


class WorkerOutOfMemory(PlayheadError):
    """A Python process that reads or writes for the engine ran out of memory."""

    def __init__(self) -> None:
        super().__init__(
            "a worker process of the engine ran out of memory",
            hint="give it more, or use fewer workers: --master 'local[1]'; committed data "
            "stay, and `playhead resume` continues",
        )


class OutOfReach(EngineFailed):
    """A time or a header's name that Spark's types cannot hold unchanged."""


def is_of_a_record(exc: BaseException) -> bool:
    """Return whether the cause may be a record for which an expression raises."""
    return isinstance(exc, StackFull) or type(exc) in (EngineFailed, OutOfReach)


def failure(exc: Exception) -> PlayheadError:
    """Return the error that the task raised, as found in Spark's error; or what Spark lost."""
    if isinstance(exc, PlayheadError):
        return exc
    text = str(exc)
    at = text.find(MARK)
    if at < 0:
        return _foreign(exc, text)
    document, _ = json.JSONDecoder().raw_decode(text, at + len(MARK))
    if document.pop("is_away"):
        return TaskAway(document["message"], hint=document["hint"])
    message = document.pop("message")
    return TaskFailed(message, **document)


def as_text(error: PlayheadError, mark: str = MARK) -> str:
    """Format a task's error so that `failure` finds it inside Spark's error, in the process of this mark."""
    return mark + json.dumps(
        {
            "message": error.message,
            "hint": error.hint,
            "exit_code": error.exit_code,
            "is_away": isinstance(error, Unavailable),
        }
    )


def of_the_engine(exc: Exception) -> PlayheadError | None:
    """Return why the engine cannot continue, if that is what the error means; else None."""
    from playhead.spark import session

    if _has_ended(exc):
        return _ended()
    if _FULL.match(_cause(str(exc))):
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
    cause = _cause(text)
    if cause.startswith(_STACK_FULL):
        return StackFull()
    for what, beginning in _LOST.items():
        if beginning.match(cause):
            return EngineLost(what)
    kind = OutOfReach if _OVERFLOW.search(text) else EngineFailed
    return kind(
        f"the engine failed with {type(exc).__name__}: {secrets.redacted_start(_reason(text), 500)}",
        hint="-vv shows the whole error; committed data stay",
        exit_code=PlayheadError.exit_code,
    )


def _cause(text: str) -> str:
    """Return the text from the cause on, which begins with words of Spark or of Java."""
    at = 0
    while (around := _AROUND.match(text, at)) is not None:
        at = around.end()
    return text[at:]


def _reason(text: str) -> str:
    """Return the line that names the cause. The stacks stay in the chain of errors, which -vv shows."""
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    in_java = (causes[-1] if causes else _cause(text).strip().partition("\n")[0]).rstrip()
    in_python = _IN_PYTHON.findall(text) if in_java.endswith((":", "below.")) else []
    return in_python[-1] if in_python else in_java.removeprefix("Caused by: ")


def _has_ended(exc: Exception) -> bool:
    """Return whether the engine has ended, which may be noticed later than the broken connection."""
    from playhead.spark import session

    if not isinstance(exc, ConnectionError | EOFError) and "py4j" not in type(exc).__module__:
        return False
    deadline_s = _END_NOTED_WITHIN_S if not _is_said_by_java(exc) else 0
    clock = SystemClock()
    has_died = wait_until(session.has_died, deadline_s=deadline_s, clock=clock, every_s=0.02)
    # No process listens any more, though a large one may take longer to end.
    return bool(has_died) or isinstance(exc, ConnectionRefusedError)


def _is_said_by_java(exc: Exception) -> bool:
    return type(exc).__name__ == "Py4JJavaError"
