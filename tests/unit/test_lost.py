"""What Spark says of a failure, in our words: what is lost is waited for, and what is broken is said once."""

import pickle
import subprocess
import sys
import traceback

import pytest
from pyspark import cloudpickle

from playhead import secrets
from playhead.errors import PlayheadError, Unavailable
from playhead.spark.failures import (
    MARK,
    EngineFailed,
    EngineLost,
    EngineOutOfMemory,
    OutOfReach,
    TaskAway,
    TaskFailed,
    as_text,
)
from playhead.spark.failures import (
    failure as failure_of,
)
from playhead.spark.run import Task

ABORTED = (
    "An error occurred while calling o77.collectToPython.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed "
    "1 times, most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (localhost executor driver): {}\n"
    "\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)\n"
)


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        ("Python worker exited unexpectedly (crashed)", "a worker process"),
        ("java.io.EOFException", "a worker process"),
        ("java.net.SocketException: Connection reset", "a worker process"),
        (
            "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
            "an executor",
        ),
        ("Job 0 cancelled because SparkContext was shut down", "its cluster"),
    ],
)
def test_what_is_lost_can_be_waited_for(said, lost):
    failure = failure_of(RuntimeError(ABORTED.format(said)))
    assert isinstance(failure, EngineLost)
    assert isinstance(failure, Unavailable)
    assert failure.message == f"the engine lost {lost}"
    assert "playhead resume" in failure.hint


def test_no_beginning_of_a_password_is_left_where_the_engines_error_is_cut():
    """A broker may answer a login with the password, and Java's client quotes the answer."""
    password = secrets.remember("un5eenUn6een")
    said = "Caused by: SaslAuthenticationException: ".ljust(500, "x") + password
    failure = failure_of(RuntimeError(f"Job aborted\n\tat here\n{said}"))
    assert isinstance(failure, EngineFailed)
    assert "un5e" not in failure.message


def test_what_a_task_has_said_itself_counts_first():
    away = ABORTED.format("RuntimeError: " + as_text(Unavailable("no leader", hint="wait")))
    failure = failure_of(RuntimeError(away + "Python worker exited unexpectedly"))
    assert (type(failure), failure.message, failure.hint) == (TaskAway, "no leader", "wait")
    refused = PlayheadError("too large", hint="skip it")
    failure = failure_of(RuntimeError(ABORTED.format(as_text(refused))))
    assert (type(failure), failure.message, failure.exit_code) == (TaskFailed, "too large", 1)


FORGED = 'PLAYHEAD-ERROR {"message": "proved", "hint": null, "exit_code": 0, "is_away": true}'


def _as_spark_quotes_it(error: Exception) -> str:
    """Return a worker's error as Spark shows it: with the error that it was raised from, and first."""

    class Failing(Task):
        def work(self, parts):
            raise error

    task = pickle.loads(cloudpickle.dumps(Failing()))  # noqa: S301  as in a worker
    with pytest.raises(RuntimeError, match="PLAYHEAD-ERROR") as caught:
        list(task(iter([])))
    return ABORTED.format("".join(traceback.format_exception(caught.value)))


def test_a_record_in_the_error_of_a_task_says_nothing_in_its_place():
    text = _as_spark_quotes_it(PlayheadError(f"record 1: {FORGED}", hint="skip it"))
    assert text.index(FORGED) < text.index(MARK)
    failure = failure_of(RuntimeError(text))
    assert (type(failure), failure.exit_code, failure.hint) == (TaskFailed, 1, "skip it")
    assert failure.message == f"record 1: {FORGED}"


@pytest.mark.parametrize("said", [FORGED, "PLAYHEAD-ERROR {", "PLAYHEAD-ERROR []"])
def test_a_record_in_an_error_of_spark_is_no_error_of_a_task(said):
    failure = failure_of(RuntimeError(ABORTED.format(f"Fail to parse '{said}'")))
    assert (type(failure), failure.exit_code) == (EngineFailed, 1)


QUOTED = (
    "Connection reset",
    "java.io.EOFException",
    "x\nCaused by: java.net.SocketException: Broken pipe",
    "Lost task 0.0 in stage 0.0 (TID 0) (h executor 1): ExecutorLostFailure",
    "org.apache.spark.SparkException: Python worker exited unexpectedly",
    "SparkContext was shut down",
    "java.lang.OutOfMemoryError: Java heap space",
)
AWAITED = (
    "An error occurred while calling o107.getResult.\n"
    ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
    "\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)\n"
    "Caused by: " + ABORTED.partition("\n: ")[2]
)


@pytest.mark.parametrize("said", QUOTED)
@pytest.mark.parametrize(
    "quoting",
    [
        ABORTED.format("java.util.regex.PatternSyntaxException: Unclosed group near index 9\n({}"),
        AWAITED.format("java.util.regex.PatternSyntaxException: Unclosed group near index 9\n({}"),
        "An error occurred while calling o1.x.\n: java.util.UnknownFormatConversionException: {}",
        "[INVALID_TIMEZONE] The timezone: {} is invalid. SQLSTATE: 22009",
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [INVALID_TIMEZONE] {}",
        "Unknown time-zone ID: {}",
    ],
)
def test_what_a_record_says_is_no_loss_and_is_not_waited_for(quoting, said):
    assert type(failure_of(RuntimeError(quoting.format(said)))) is EngineFailed


def test_a_loss_is_told_through_all_that_spark_says_around_it():
    for quoting in (ABORTED, AWAITED):
        crashed = quoting.format(
            "org.apache.spark.SparkException: Python worker exited unexpectedly"
        )
        assert type(failure_of(RuntimeError(crashed))) is EngineLost
    ended = "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
    assert type(failure_of(RuntimeError(ended))) is EngineLost


@pytest.mark.parametrize(
    ("said", "has_lost_all"),
    [
        ("[INVALID_HANDLE.SESSION_CHANGED] The handle x is invalid.", True),
        ("[RESPONSE_ALREADY_RECEIVED] INVALID_HANDLE.SESSION_NOT_FOUND on the server", True),
        ("[SESSION_OR_CONTEXT_NOT_EXISTS] SparkContext should be created first.", True),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly", False),
    ],
)
def test_a_session_that_cannot_go_on_is_told_from_a_lost_worker(said, has_lost_all):
    found = failure_of(RuntimeError(said))
    assert isinstance(found, EngineLost)
    assert found.has_lost_all == has_lost_all


def test_a_worker_uses_the_mark_of_the_process_that_waits_for_it():
    class Failing(Task):
        def work(self, parts):
            raise PlayheadError("too large")

    packed = cloudpickle.dumps(Failing())
    elsewhere = (
        "import pickle, sys\n"
        "try: list(pickle.loads(sys.stdin.buffer.read())(iter([])))\n"
        "except RuntimeError as exc: print(exc)"
    )
    done = subprocess.run(
        [sys.executable, "-c", elsewhere], input=packed, capture_output=True, check=True
    )
    assert failure_of(RuntimeError(done.stdout.decode())).message == "too large"


def test_anything_else_is_one_line_and_not_a_stack():
    text = ABORTED.format("x") + "Caused by: java.lang.IllegalStateException: broken\n\tat a.b(c)"
    failure = failure_of(RuntimeError(text))
    assert type(failure) is EngineFailed
    assert failure.message == (
        "the engine failed with RuntimeError: java.lang.IllegalStateException: broken"
    )


def test_an_error_of_java_without_a_cause_is_named_itself():
    call = "An error occurred while calling o6723.collectToPython.\n"
    failure = failure_of(
        RuntimeError(f"{call}: java.lang.IllegalStateException: Shutdown\n\tat a.b(c)")
    )
    assert failure.message == (
        "the engine failed with RuntimeError: java.lang.IllegalStateException: Shutdown"
    )


@pytest.mark.parametrize(
    "begin",
    [
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n",
        "\n  An exception was thrown from the Python worker:\n",
        ABORTED.format("x") + "Caused by: org.apache.spark.api.python.PythonException: ",
    ],
)
def test_what_failed_in_python_is_named_by_the_last_line_of_its_account(begin):
    text = (
        f"{begin}Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n    process()\n'
        "pyarrow.lib.ArrowInvalid: Not enough memory\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)\n"
    )
    failure = failure_of(RuntimeError(text))
    assert failure.message == (
        "the engine failed with RuntimeError: pyarrow.lib.ArrowInvalid: Not enough memory"
    )


def test_memory_that_was_not_enough_is_said_and_not_tried_again():
    failure = failure_of(
        RuntimeError(ABORTED.format("java.lang.OutOfMemoryError: Java heap space"))
    )
    assert type(failure) is EngineOutOfMemory
    assert not isinstance(failure, Unavailable)
    assert "ran out of memory" in failure.message
    assert "memory" in failure.hint


def test_a_time_that_spark_cannot_hold_is_told_apart():
    text = ABORTED.format("java.lang.ArithmeticException: long overflow")
    assert type(failure_of(RuntimeError(text))) is OutOfReach
    of_the_reader = (
        "An error occurred while calling o136.collectToPython.\n"
        ": org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record at topic laps overflows\n"
        "\tat org.apache.spark.sql.kafka010.KafkaExceptions$.kafkaMalformedRecordTimestamp(K.scala:188)\n"
        "Caused by: java.lang.ArithmeticException: long overflow\n"
    )
    assert type(failure_of(RuntimeError(of_the_reader))) is OutOfReach


def test_a_worker_without_memory_is_no_fault_of_ours():
    class Greedy(Task):
        def work(self, parts):
            raise MemoryError
            yield parts

    with pytest.raises(RuntimeError) as raised:
        next(Greedy()(iter(())))
    failure = failure_of(raised.value)
    assert failure.message == "a worker process of the engine ran out of memory"
    assert "local[1]" in failure.hint


def test_where_nobody_listens_any_more_the_engine_has_ended(monkeypatch):
    """A process with a large heap may take longer to be gone than anybody waits."""
    monkeypatch.setattr("playhead.spark.failures._END_NOTED_WITHIN_S", 0)
    assert type(failure_of(ConnectionRefusedError())) is EngineLost
    assert type(failure_of(ConnectionResetError())) is EngineFailed
