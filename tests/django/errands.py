"""Tasks of the shop."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from asgiref.sync import sync_to_async
from django.db import IntegrityError, transaction

from pgqueue.django.framework import task
from tests.django.shop import Shipped

ATTEMPTS: list[int] = []


@task
def ship(order: int) -> int:
    Shipped.objects.create(order=order)
    return order


@task
def ship_and_fail(order: int) -> None:
    Shipped.objects.create(order=order)
    raise ValueError("the lorry broke down")


@task
def ship_twice(order: int) -> None:
    Shipped.objects.create(order=order)
    with suppress(IntegrityError):
        Shipped.objects.create(order=order)


@task
def ship_and_undo(order: int) -> None:
    Shipped.objects.create(order=order)
    transaction.set_rollback(True)


@task
async def ship_asynchronously(order: int) -> None:
    await Shipped.objects.acreate(order=order)
    await sync_to_async(lambda: transaction.on_commit(lambda: None))()


@task
async def ship_asynchronously_and_fail(order: int) -> None:
    await Shipped.objects.acreate(order=order)
    raise ValueError("the lorry broke down")


@task(takes_context=True, queue_name="mail", priority=7)
def note_attempt(context: Any) -> None:
    ATTEMPTS.append(context.attempt)
    if context.attempt == 1:
        raise ValueError("once more")


@task
def fail_after_commit(order: int) -> None:
    Shipped.objects.create(order=order)

    def fail() -> None:
        raise ValueError("nobody listens")

    transaction.on_commit(fail)


@task(backend="kept", queue_name="kept")
def weigh(order: int, *, grams: int = 0) -> dict[str, int]:
    if grams < 0:
        raise ValueError("lighter than air")
    Shipped.objects.create(order=order)
    return {"grams": grams}


@task
def answer_what_is_no_json() -> object:
    Shipped.objects.create(order=1)
    return object()


def no_task() -> None:
    raise AssertionError("it was run")
