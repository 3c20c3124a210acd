"""Ingest: datagrams become records of a topic, and every datagram is accounted for."""
