"""The formats of captures, one module each."""
