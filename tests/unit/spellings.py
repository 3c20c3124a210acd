"""What the tests of the connection write down again and again."""

from collections.abc import Mapping

from playhead.config.kafka_connection import KafkaConnection

Properties = dict[str, str]
JAAS = "org.apache.kafka.common.security."
BROKERS = "localhost:9092"
SSL = {"security.protocol": "SSL"}
SASL = {"security.protocol": "SASL_SSL"}
PLAIN = SASL | {"sasl.mechanism": "PLAIN"}
OAUTH = SASL | {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "hidden",
    "sasl.oauthbearer.token.endpoint.url": "https://login/",
}


def read(properties: Mapping[str, str], *, references: bool = True) -> KafkaConnection:
    return KafkaConnection.from_properties(properties, where="here", references=references)


def strings(rendered: Mapping[str, object]) -> Properties:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in rendered.items()
    }
