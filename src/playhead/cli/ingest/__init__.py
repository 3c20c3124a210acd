"""The command that receives datagrams."""
