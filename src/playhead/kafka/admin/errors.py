"""Translates the errors of librdkafka and of brokers: one table of meanings, two context managers."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from playhead.errors import BrokerUnavailable, PlayheadError, Unavailable
from playhead.kafka.admin.answer_fields import BadAnswer
from playhead.secrets import redact_cut

# librdkafka's buffers for errors have 256 bytes or more, and texts are joined in the larger ones.
_MAY_BE_CUT = 250
# The list of the mechanisms that a broker knows has 31 bytes for each, and more words come behind it.
_MECHANISMS = re.compile(r"(?<=broker's supported mechanisms: ).*(?= \(after )", re.DOTALL)


class Meaning(Enum):
    """The meaning of an error code; each caller decides what follows from it."""

    AWAY = auto()
    """No broker could be reached, or none answered."""
    NOT_READY = auto()
    """A broker has just started, or a partition or group is moving: a later attempt may succeed."""
    NOT_AUTHORIZED = auto()
    """An ACL is missing."""
    FENCED = auto()
    """A newer producer uses the same transactional id."""
    REJECTED_RECORD = auto()
    """The broker or the client does not accept a record."""
    GROUP_IN_USE = auto()
    """The group has members, and this client is not one of them."""
    MISSING = auto()
    """The client does not find the topic or the partition."""
    CORRUPT = auto()
    """The client cannot read what the broker sent."""
    REFUSED = auto()
    """Another attempt would be refused too."""
    OTHER = auto()
    """Not in the table."""


_RESOURCES = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
}
_CODES = {
    Meaning.AWAY: (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._SSL,
        KafkaError._AUTHENTICATION,
        KafkaError._DESTROY_BROKER,  # The connection of the request was closed.
    ),
    Meaning.NOT_READY: (
        KafkaError._NOENT,  # librdkafka's code for a partition without a leader
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_CONTROLLER,
        KafkaError._WAIT_COORD,
        KafkaError._TIMED_OUT_QUEUE,
    ),
    Meaning.NOT_AUTHORIZED: tuple(_RESOURCES),
    Meaning.FENCED: (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    ),
    Meaning.REJECTED_RECORD: (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
    ),
    Meaning.GROUP_IN_USE: (
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
    ),
    Meaning.MISSING: (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION),
    Meaning.CORRUPT: (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION),
    Meaning.REFUSED: (
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.POLICY_VIOLATION,
        KafkaError._INVALID_ARG,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError._UNSUPPORTED_FEATURE,
    ),
}
_MEANINGS = {code: meaning for meaning, codes in _CODES.items() for code in codes}


def meaning_of(error: KafkaError) -> Meaning:
    """Return what an error's code means."""
    return _MEANINGS.get(error.code(), Meaning.OTHER)


def is_not_authorized(error: KafkaError) -> bool:
    """Return whether an ACL is missing."""
    return meaning_of(error) is Meaning.NOT_AUTHORIZED


def is_unknown_topic(error: KafkaError) -> bool:
    """Return whether a broker does not know the topic."""
    return bool(error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART)


def is_definite(error: KafkaError) -> bool:
    """Return whether another attempt of a writer would fail, too."""
    return meaning_of(error) in (Meaning.REFUSED, Meaning.NOT_AUTHORIZED, Meaning.MISSING)


def words_of(error: KafkaError) -> str:
    """Return an error's text, which may quote a broker, and which librdkafka cuts off at some length."""
    text = _MECHANISMS.sub(
        lambda found: ",".join(map(redact_cut, found[0].split(","))), str(error.str())
    )
    return redact_cut(text) if len(text.encode(errors="replace")) >= _MAY_BE_CUT else text


def text_of(error: KafkaError) -> str:
    """Return an error's text with the name of its code."""
    return f"{words_of(error)} ({error.name()})"


class KafkaRefused(PlayheadError):
    """The cluster refused the request."""

    def __init__(self, action: str, *, reason: str) -> None:
        self.action, self.reason = action, reason
        super().__init__(f"{action}: {reason}")


class Need(NamedTuple):
    """An operation of Kafka's authorizer on a topic, a group, a transactional id or the cluster."""

    operation: str
    resource: str
    name: str = ""


class AclMissing(KafkaRefused):
    """The cluster knows the user, but an ACL is missing."""

    def __init__(
        self, action: str, *, reason: str, resource: str, needs: tuple[Need, ...] = ()
    ) -> None:
        self.resource, self.needs = resource, needs
        said = f"the cluster does not allow it; {missing_acls(*needs)}" if needs else reason
        super().__init__(action, reason=said)
        if needs:
            self.hint = "ask an administrator to run: " + "; ".join(map(_command, needs))


def missing_acls(*needs: Need) -> str:
    """Name the ACLs that are missing."""
    named = (f"{need.operation} on {need.resource} {need.name}".rstrip() for need in needs)
    return f"missing ACL: {' and '.join(named)}"


def _command(need: Need) -> str:
    resource = f"--{need.resource} {need.name}".rstrip()
    return f"kafka-acls --add --allow-principal User:NAME --operation {need.operation} {resource}"


class TransactionLost(Unavailable):
    """The end of a transaction is unknown, or the cluster aborted it; the ledger knows its result."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"the result of the transaction of {where} is unknown: {reason}",
            hint="the ledger knows whether it was committed; resume the replay to continue from there",
        )


class LedgerWaits(Unavailable):
    """Another producer's open transaction hides committed entries for too long."""

    def __init__(self, topic: str, *, offset: int, waited_s: float) -> None:
        self.topic, self.offset, self.waited_s = topic, offset, waited_s
        super().__init__(
            f"topic {topic}: a transaction has been open at offset {offset} for more than "
            f"{waited_s:g} s and hides what was committed after it",
            hint="a producer hangs; find it with `kafka-transactions.sh find-hanging`",
        )


def refused(error: KafkaError, action: str) -> KafkaRefused:
    """Return a permanent error as one of Playhead's."""
    if meaning_of(error) is Meaning.NOT_AUTHORIZED:
        return AclMissing(action, reason=text_of(error), resource=_RESOURCES[error.code()])
    found = KafkaRefused(action, reason=text_of(error))
    if error.code() == KafkaError.UNKNOWN:
        found.hint = "the broker failed and did not say why; its own log does"
    return found


@contextmanager
def translated(
    action: str, servers: str | None, *, reason: Callable[[str], str] = str
) -> Iterator[None]:
    """Raise the errors of the calls inside as Playhead's; `reason` may explain better why no broker answered."""
    began = time.monotonic()
    try:
        yield
    except (KafkaException, TimeoutError) as exc:
        error = exc.args[0] if isinstance(exc, KafkaException) else None
        passes = error is None or error.retriable()
        if error is not None and not passes:
            passes = meaning_of(error) in (Meaning.AWAY, Meaning.NOT_READY)
        if error is not None and not passes:
            raise refused(error, action) from exc
        raise BrokerUnavailable(
            servers or "",
            waited_s=round(time.monotonic() - began, 1),
            reason=reason(words_of(error) if error else "no answer"),
        ) from exc
    except UnicodeDecodeError as exc:  # The client's C code makes texts of names as they come.
        raise BadAnswer("a name that is not UTF-8") from exc


@contextmanager
def needing(*needs: Need) -> Iterator[None]:
    """Name these ACLs if the cluster does not authorize the calls inside."""
    try:
        yield
    except AclMissing as exc:
        if exc.needs:
            raise
        fitting = tuple(need for need in needs if need.resource == exc.resource) or needs
        raise AclMissing(
            exc.action, reason=exc.reason, resource=exc.resource, needs=fitting
        ) from exc


def client_error(exc: BaseException) -> KafkaError:
    """Return the client's error behind an exception; re-raise any other exception.

    The client's C code raises a SystemError if an error was already set.
    """
    cause = exc.__cause__ if isinstance(exc, SystemError) else exc
    if not isinstance(cause, KafkaException):
        raise exc
    error: KafkaError = cause.args[0]
    return error
