"""A Kafka-speaking proxy that writes down what passes through it."""
