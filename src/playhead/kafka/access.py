"""Says which permission is missing when a cluster does not allow something, and the command that gives it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from playhead.kafka.admin import KafkaRefused

_ON = {
    "GROUP_AUTHORIZATION_FAILED": "group",
    "TOPIC_AUTHORIZATION_FAILED": "topic",
    "CLUSTER_AUTHORIZATION_FAILED": "cluster",
}


class Need(NamedTuple):
    """An operation of Kafka's authorizer on a group, a topic or the cluster."""

    operation: str
    kind: str
    name: str


class NotAllowed(KafkaRefused):
    """The cluster knows who asks, and does not let them."""

    def __init__(self, action: str, *, needs: tuple[Need, ...]) -> None:
        self.needs = needs
        told = " and ".join(
            f"{need.operation} on {need.kind} {need.name}".rstrip() for need in needs
        )
        super().__init__(action, reason=f"the cluster does not allow it; needed: {told}")
        self.hint = "whoever may, gives it: " + "; ".join(_command(need) for need in needs)


def _command(need: Need) -> str:
    where = f"--{need.kind}" + (f" {need.name}" if need.name else "")
    return f"kafka-acls --add --allow-principal User:NAME --operation {need.operation} {where}"


@contextmanager
def needing(*needs: Need) -> Iterator[None]:
    """Around a question: a refusal for want of a permission becomes one that names it."""
    try:
        yield
    except KafkaRefused as exc:
        # The seam of the errors puts the name of Kafka's own error into the reason.
        kind = next((kind for name, kind in _ON.items() if name in exc.reason), None)
        if kind is None or isinstance(exc, NotAllowed):
            raise
        fitting = tuple(need for need in needs if need.kind == kind) or needs
        raise NotAllowed(exc.action, needs=fitting) from exc
