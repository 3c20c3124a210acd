"""What the bytes of keys and values mean: plain forms, and Avro, Protobuf and JSON Schema of a registry.

`decoder` makes one from a word. Nothing here knows Kafka, Spark or the command line.
"""
