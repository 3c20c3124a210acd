"""What librdkafka's errors mean to a replay that writes: taken over, worth another try, or refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from playhead.connection import KafkaConnection
from playhead.errors import BrokerUnavailable, Unavailable
from playhead.kafka.admin import KafkaRefused

FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
# Trying again does not help; all else may be over in a moment.
_DEFINITE = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError.INVALID_REQUIRED_ACKS,
    KafkaError.POLICY_VIOLATION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._INVALID_ARG,
    KafkaError._NOT_IMPLEMENTED,
    KafkaError._UNSUPPORTED_FEATURE,
}
_AWAY = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._SSL,
    KafkaError._AUTHENTICATION,
    KafkaError._TIMED_OUT,
}


class TransactionLost(Unavailable):
    """A transaction whose end is not known, or that the cluster gave up; the ledger knows it."""

    def __init__(self, where: str, *, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"the transaction of {where} did not come to a known end: {reason}",
            hint="the ledger says whether it was committed; resume goes on from there",
        )


class LedgerWaits(Unavailable):
    """Somebody's open transaction hides what was committed after it for too long."""

    def __init__(self, topic: str, *, offset: int, waited_s: float) -> None:
        self.topic, self.offset, self.waited_s = topic, offset, waited_s
        super().__init__(
            f"topic {topic}: a transaction is open at offset {offset} since more than {waited_s:g} s, "
            "and what was committed after it cannot be seen",
            hint="a producer hangs; `kafka-transactions.sh find-hanging` names it",
        )


def is_definite(error: KafkaError) -> bool:
    """Whether trying again is of no use."""
    return error.code() in _DEFINITE


@contextmanager
def translated(connection: KafkaConnection, action: str) -> Iterator[None]:
    """Turn errors of calls outside of a transaction into ours."""
    try:
        yield
    except KafkaException as exc:
        error = exc.args[0]
        if error.code() in _AWAY or error.retriable():
            raise BrokerUnavailable(
                connection.bootstrap_servers or "", waited_s=0, reason=f"{action}: {error.str()}"
            ) from exc
        raise KafkaRefused(action, reason=f"{error.str()} ({error.name()})") from exc
