"""Contexts, settings, checks, the sandbox and the demo."""
