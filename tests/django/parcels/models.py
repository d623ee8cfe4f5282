from __future__ import annotations

from django.db import models


class Parcel(models.Model):
    number = models.IntegerField(unique=True)
    is_delivered = models.BooleanField(default=False)
