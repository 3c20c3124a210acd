"""Producers for single records, each acknowledged."""
