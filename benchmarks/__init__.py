"""Measurements, each with the command that repeats it; see README.md."""

from __future__ import annotations
