"""Decodes keys and values: plain forms, and a registry's Avro, Protobuf and JSON Schema.

`decoder` makes a decoder from the name of a form. Nothing here uses Kafka, Spark or the command
line.
"""
