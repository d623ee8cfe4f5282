"""Budgets of the hot path: the costs of its verbs in things that do not depend on the machine."""
