"""Captured traffic: reads records from RRPair snapshots, extracts, GoReplay files, HAR and server logs."""
