"""Migrations of the app, for ``manage.py migrate``."""
