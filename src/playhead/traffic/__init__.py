"""Captured traffic: records out of RRPair snapshots, their extracts, GoReplay files and HAR."""
