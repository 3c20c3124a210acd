"""Turns a cluster's "not authorised" into an error that names the ACL which is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from playhead.errors import PlayheadError
from playhead.kafka.admin import KafkaRefused

_NOT_ALLOWED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class NotAllowed(PlayheadError):
    """The cluster knows who asks, and does not let them."""

    def __init__(self, action: str, *, operation: str, resource: str) -> None:
        self.action, self.operation, self.resource = action, operation, resource
        super().__init__(
            f"{action}: the cluster does not allow it",
            hint=f"the ACL that is missing is {operation} on {resource}; "
            f"kafka-acls --add --operation {operation} makes one",
        )


@contextmanager
def needing(operation: str, resource: str) -> Iterator[None]:
    """What is asked inside needs this ACL; without it the error says so."""
    try:
        yield
    except KafkaRefused as exc:
        if _code(exc.__cause__) in _NOT_ALLOWED:
            raise NotAllowed(exc.action, operation=operation, resource=resource) from exc
        raise


def _code(cause: BaseException | None) -> int | None:
    if isinstance(cause, KafkaException) and isinstance(cause.args[0], KafkaError):
        return int(cause.args[0].code())
    return None
