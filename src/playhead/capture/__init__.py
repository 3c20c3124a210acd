"""A proxy for the Kafka protocol that records the requests and responses that it forwards."""
