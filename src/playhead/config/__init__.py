"""Contexts, settings, logins and what a project's file may say."""
