"""An application of Django with one model, and a handler that uses it."""

from __future__ import annotations

from typing import Any

from django.db import models

import pgqueue.django


class Shipped(models.Model):
    order = models.IntegerField(unique=True)

    class Meta:
        app_label = "shop"


def ship(message: Any) -> None:
    with pgqueue.django.completing(message):
        Shipped.objects.create(order=message.body["order"])
