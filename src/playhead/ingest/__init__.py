"""What the wire brings goes into a topic: datagrams become records, and every one of them is accounted for."""
