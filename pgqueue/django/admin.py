"""Admin pages to look at queues and dead letters. Commands and SQL change them, with their own checks."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.utils.functional import cached_property

from pgqueue.django.models import DeadLetter, Queue

MOST = 10_000


class BoundedPaginator(Paginator):
    """Counts no further than :data:`MOST`: a queue may hold millions."""

    @cached_property
    def count(self) -> int:
        """The number of rows, at most :data:`MOST`."""
        return int(self.object_list.order_by()[:MOST].count())


class ReadOnlyAdmin(admin.ModelAdmin):
    """Shows, and changes nothing."""

    paginator = BoundedPaginator
    show_full_result_count = False

    def has_add_permission(self, *_: Any) -> bool:
        """Nobody."""
        return False

    def has_change_permission(self, *_: Any) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, *_: Any) -> bool:
        """Nobody."""
        return False


@admin.register(Queue)
class QueueAdmin(ReadOnlyAdmin):
    """Queues, with their counts."""

    list_display = ("name", "ready", "locked", "scheduled", "deferred", "dead_letters", "oldest_age", "status")
    search_fields = ("name",)


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    """Dead letters, by queue and number."""

    list_display = ("sequence_number", "queue", "dead_letter_reason", "dead_lettered_at", "delivery_count", "subject")
    ordering = ("queue", "sequence_number")
    search_fields = ("queue", "dead_letter_reason", "message_id", "subject")
