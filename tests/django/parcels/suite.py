"""Tests of the project, each of which finds nothing that another one, or the development, has left behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connections, transaction
from django.test import TestCase, TransactionTestCase

import pgqueue.django
from pgqueue import DeadLetter as Refusal
from pgqueue import Message, Queue
from pgqueue.django.models import DeadLetter
from pgqueue.django.testing import client, drain, run_tasks
from pgqueue.errors import InvalidArgumentError, InvalidStateError
from pgqueue.testing import drain as drain_by_the_pool
from tests.django.parcels.models import Parcel
from tests.django.parcels.shipping import announce, deliver, others, parcels, post


class Committing(TransactionTestCase):
    databases: ClassVar = {"default", "other"}

    def setUp(self) -> None:
        for alias in self.databases:
            pgqueue.django.client(alias).create_queue("parcels", exist_ok=True)

    def test_one_message(self) -> None:
        post(1)
        others.send(Message("other"))
        assert [each.body for each in parcels.peek(max_messages=9)] == [1]
        assert [each.body for each in others.peek(max_messages=9)] == ["other"]

    def test_another_message(self) -> None:
        self.test_one_message()

    def test_the_handler_commits(self) -> None:
        post(1)
        assert drain(parcels, deliver) == [1]
        assert parcels.peek() == []
        assert not connections["default"].in_atomic_block

    def test_the_client_is_on_the_test_database(self) -> None:
        for alias in self.databases:
            name = connections[alias].settings_dict["NAME"]
            assert name.startswith("test_"), name
            assert f"dbname={name}" in pgqueue.django.client(alias)._source.conninfo


class CommittingElsewhere(TransactionTestCase):
    """A second class, which ``--parallel`` gives to a second process."""

    def setUp(self) -> None:
        pgqueue.django.client().create_queue("parcels", exist_ok=True)

    def test_a_number_that_another_class_has_sent(self) -> None:
        post(1)
        assert [each.body for each in parcels.peek(max_messages=9)] == [1]


class InTheTransactionOfATest(TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        pgqueue.django.client().create_queue("parcels", exist_ok=True)
        super().setUpClass()

    @classmethod
    def setUpTestData(cls) -> None:
        client().create_queue("default")

    @property
    def seen(self) -> Queue:
        """The queue as the test sees it."""
        return client().queue("parcels")

    def test_a_handler(self) -> None:
        post(1)
        assert [each.body for each in self.seen.peek()] == [1]
        assert parcels.peek() == [], "another connection sees nothing"
        assert drain(parcels, deliver) == [1]
        assert self.seen.peek() == []
        assert Parcel.objects.get().is_delivered

    def test_the_same_handler_again(self) -> None:
        self.test_a_handler()

    def test_a_handler_with_a_transaction(self) -> None:
        post(1)
        drain(parcels, lambda _, tx: tx.execute("update parcels_parcel set is_delivered = true"))
        assert Parcel.objects.get().is_delivered

    def test_a_handler_that_begins_its_transaction(self) -> None:
        def handler(message: Any) -> None:
            with message.transaction():
                Parcel.objects.update(is_delivered=True)

        post(1)
        drain(self.seen, handler)
        assert Parcel.objects.get().is_delivered
        assert self.seen.peek() == []

    def test_a_handler_that_sends(self) -> None:
        post(3)
        drain(parcels, lambda message: post(message.body - 1) if message.body else None)
        assert Parcel.objects.count() == 4

    def test_a_handler_that_fails(self) -> None:
        def handler(message: Any) -> None:
            Parcel.objects.update(is_delivered=True)
            raise ZeroDivisionError

        post(1)
        with pytest.raises(ZeroDivisionError):
            drain(parcels, handler)
        assert not Parcel.objects.get().is_delivered
        (message,) = self.seen.peek()
        assert (message.delivery_count, drain(parcels, deliver)) == (1, []), "it rests"

    def test_a_database_error_of_a_handler(self) -> None:
        post(1)
        with pytest.raises(DatabaseError):
            drain(parcels, lambda message: Parcel.objects.create(number=message.body))
        assert Parcel.objects.count() == 1, "the transaction of the test goes on"

    def test_a_handler_that_dead_letters(self) -> None:
        def handler(_: Any) -> None:
            raise Refusal("Unpayable")

        post(1)
        drain(parcels, handler)
        (dead,) = self.seen.dead_letters.peek()
        assert dead.dead_letter_reason == "Unpayable"
        self.seen.dead_letters.resubmit()
        assert drain(parcels, deliver) == [1]

    def test_a_block_that_has_to_be_rolled_back(self) -> None:
        post(1)
        with pytest.raises(transaction.TransactionManagementError):
            drain(parcels, lambda _: transaction.set_rollback(True))
        assert Parcel.objects.count() == 1

    def test_tasks(self) -> None:
        announce.enqueue(2)
        announce.using(run_after=later()).enqueue(9)
        assert [each.return_value for each in run_tasks(queues=["default"])] == [2, 1, 0]
        assert Parcel.objects.count() == 3
        assert run_tasks(queues=["default"]) == []

    def test_a_task_that_fails(self) -> None:
        post(2)
        announce.enqueue(2)
        with pytest.raises(DatabaseError):
            run_tasks(queues=["default"])
        assert Parcel.objects.count() == 1

    def test_wrong_backends_queues_and_senders_are_refused(self) -> None:
        with self.assertRaisesMessage(InvalidArgumentError, "TASKS has no backend 'nothing'"):
            run_tasks("nothing")
        with self.assertRaisesMessage(InvalidArgumentError, "name the queues by queues="):
            run_tasks(queues=[])
        stranger = pgqueue.QueueClient(pgqueue.django.dsn())
        with self.assertRaisesMessage(InvalidArgumentError, "a queue of pgqueue.django.client()"):
            drain(stranger.queue("parcels"), deliver)
        with self.assertRaisesMessage(InvalidStateError, "use send_batch()"), self.seen.sender() as sender:
            sender.send(Message(1)).result()

    def test_the_pool_finds_nothing_to_drain(self) -> None:
        post(1)
        assert drain_by_the_pool(parcels, deliver) == []


class Administration(TestCase):
    def setUp(self) -> None:
        parcels = client().queue("parcels")
        client().create_queue("parcels", exist_ok=True)
        parcels.send_batch([Message("waits", subject="<i>"), Message("dies")])
        (_, dead) = parcels.receive(max_messages=2)
        dead.dead_letter("Unpayable")
        self.client.force_login(User.objects.create_superuser("admin"))

    def page(self, path: str) -> str:
        answer = self.client.get(f"/admin/pgqueue/{path}")
        assert answer.status_code == 200, answer
        return str(answer.content.decode())

    def test_queues(self) -> None:
        assert "parcels" in self.page("queue/")

    def test_messages(self) -> None:
        assert "&lt;i&gt;" in self.page("queuedmessage/?queue=parcels")

    def test_dead_letters(self) -> None:
        assert "Unpayable" in self.page("deadletter/")
        (dead,) = DeadLetter.objects.all()
        chosen = {"action": "resubmit", "_selected_action": dead.pk, "confirmed": "yes"}
        self.client.post("/admin/pgqueue/deadletter/", chosen)
        assert not DeadLetter.objects.exists()


def later() -> Any:
    from django.utils import timezone

    return timezone.now() + timedelta(hours=1)
