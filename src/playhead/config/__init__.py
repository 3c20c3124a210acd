"""Contexts, settings, logins, and the rules for project files."""
