"""Models over pgqueue's views, for the admin pages: nothing can be changed through them."""

from __future__ import annotations

from django.db import models

from pgqueue.django.placing import view


class Queue(models.Model):
    """A queue, and how many messages it holds; the numbers of a large database are estimates."""

    name = models.TextField(primary_key=True)
    ready = models.BigIntegerField()
    locked = models.BigIntegerField()
    scheduled = models.BigIntegerField()
    deferred = models.BigIntegerField()
    dead_letters = models.BigIntegerField()
    oldest_age = models.DurationField(null=True)
    is_exact = models.BooleanField()
    status = models.TextField()

    class Meta:
        """A view."""

        managed = False
        db_table = view("queues")

    def __str__(self) -> str:
        return str(self.name)


class DeadLetter(models.Model):
    """A dead letter, with its reason."""

    sequence_number = models.BigIntegerField(primary_key=True)
    queue = models.TextField()
    dead_letter_reason = models.TextField()
    dead_letter_error_description = models.TextField(null=True)
    dead_lettered_at = models.DateTimeField()
    delivery_count = models.IntegerField()
    enqueued_time = models.DateTimeField()
    message_id = models.TextField(null=True)
    subject = models.TextField(null=True)
    body = models.JSONField(null=True)

    class Meta:
        """A view."""

        managed = False
        db_table = view("dead_letters")
        permissions = (("resubmit_deadletter", "Can resubmit dead letter"),)

    def __str__(self) -> str:
        return f"{self.queue} {self.sequence_number}"


class QueuedMessage(models.Model):
    """A message that waits, is locked, deferred, scheduled or dead: for its admin pages and the right to see them."""

    sequence_number = models.BigIntegerField(primary_key=True)
    queue = models.TextField()

    class Meta:
        """A view; the pages call ``find_messages`` and ``peek``, which find messages by their numbers."""

        managed = False
        db_table = view("messages")
        verbose_name = "message"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.queue} {self.sequence_number}"
