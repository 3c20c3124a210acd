"""The command that takes datagrams."""
