"""The code under test: it has made its client before the runner names the test database."""

from __future__ import annotations

from typing import Any

from django.db import transaction

import pgqueue.django
from pgqueue import Message
from pgqueue.django.framework import task
from tests.django.parcels.models import Parcel

parcels = pgqueue.django.client().queue("parcels")
parcels.peek()  # its pool is open, too
others = pgqueue.django.client("other").queue("parcels")


def post(number: int) -> None:
    with transaction.atomic():
        Parcel.objects.create(number=number)
        parcels.send(Message(number), transaction=pgqueue.django.transaction())


def deliver(message: Any) -> Any:
    with pgqueue.django.completing(message):
        return Parcel.objects.filter(number=message.body).update(is_delivered=True)


@task
def announce(number: int) -> int:
    Parcel.objects.create(number=number)
    if number:
        announce.enqueue(number - 1)
    return number
