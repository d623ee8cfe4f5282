"""Admin pages to look at queues, messages and dead letters, and to resubmit these. Commands and SQL do the rest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, LiteralString

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import router
from django.db.transaction import atomic
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.utils.functional import cached_property
from psycopg import Error
from psycopg.rows import dict_row

from pgqueue.dashboard import queries
from pgqueue.dashboard.database import Rows
from pgqueue.django import driver_connection
from pgqueue.django.models import DeadLetter, Queue, QueuedMessage
from pgqueue.django.placing import in_schema
from pgqueue.errors import MessageNotFoundError, PGQueueError
from pgqueue.transports.translation import translate

MOST = 10_000
#: The most numbers that an entry of the audit log has.
RECORDED = 1000
FILTERS = ("state", "message_id", "correlation_id", "subject", "reason")
#: Keys that the page of a message shows apart from its properties.
SHOWN_APART = {"body", "binary_body", "pretty", "deliveries", "history", "explanation"}

QUEUES: Final = "select name from pgqueue.queue_settings() order by name"
RESUBMIT: Final = "select count(*) from pgqueue.resubmit(%(queue)s, %(numbers)s::bigint[])"
RECORD: Final = "select pgqueue.record_action('resubmit', %(queue)s, %(messages)s, %(details)s)"


class DjangoRows(Rows):
    """Statements over Django's connection."""

    def __init__(self, using: str | None = None) -> None:
        self._using = using or router.db_for_read(QueuedMessage)

    def all(self, query: LiteralString, **parameters: Any) -> list[dict[str, Any]]:
        """All rows."""
        connection = driver_connection(self._using)
        try:
            with atomic(using=self._using), connection.cursor(row_factory=dict_row) as cursor:
                return cursor.execute(in_schema(query), parameters).fetchall()
        except Error as error:
            raise translate(error) from error

    def one(self, query: LiteralString, **parameters: Any) -> dict[str, Any] | None:
        """The first row, or None."""
        return next(iter(self.all(query, **parameters)), None)


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

    has_change_permission = has_delete_permission = has_add_permission


@admin.register(Queue)
class QueueAdmin(ReadOnlyAdmin):
    """Queues, with their counts."""

    list_display = ("name", "ready", "locked", "scheduled", "deferred", "dead_letters", "oldest_age", "status")
    search_fields = ("name",)


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    """Dead letters, by queue and number; they can be resubmitted."""

    actions = ("resubmit",)
    list_display = ("sequence_number", "queue", "dead_letter_reason", "dead_lettered_at", "delivery_count", "subject")
    ordering = ("queue", "sequence_number")
    search_fields = ("queue", "dead_letter_reason", "message_id", "subject")

    def has_resubmit_permission(self, request: HttpRequest) -> bool:
        """Whether the user has the permission *resubmit dead letter*."""
        return bool(request.user.has_perm("pgqueue.resubmit_deadletter"))

    @admin.action(permissions=["resubmit"], description="Resubmit selected dead letters")
    def resubmit(self, request: HttpRequest, chosen: Any) -> TemplateResponse | None:
        """Ask whether that is meant; once it is confirmed, give them back to their queues, at most :data:`MOST`."""
        letters = list(chosen.order_by("queue", "sequence_number").values_list("queue", "sequence_number")[:MOST])
        if "confirmed" not in request.POST:
            return self._question(request, letters)
        try:
            done = _resubmit(letters, request.user.get_username())
        except PGQueueError as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        self.message_user(request, f"{done} of {len(letters)} dead letters were resubmitted.", messages.SUCCESS)
        if done < len(letters):
            self.message_user(request, "The others are locked, or no longer there.", messages.WARNING)
        return None

    def _question(self, request: HttpRequest, letters: list[tuple[str, int]]) -> TemplateResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Resubmit dead letters?",
            "queues": sorted(Counter(queue for queue, _ in letters).items()),
            "checkbox": ACTION_CHECKBOX_NAME,
            "selected": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "select_across": request.POST.get("select_across", "0"),
        }
        return TemplateResponse(request, "admin/pgqueue/deadletter/resubmit_confirmation.html", context)


@admin.register(QueuedMessage)
class MessageAdmin(ReadOnlyAdmin):
    """The messages of one queue, by number, and each of them whole."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> TemplateResponse:
        """A page of messages; the next begins after the last number of this."""
        self._check_right(request)
        queue = request.GET.get("queue", "")
        after = request.GET.get("after", "")
        filters = {name: request.GET.get(name) or None for name in FILTERS}
        context: dict[str, Any] = {"queue": queue, "after": after, "filters": filters, "states": queries.STATES}
        try:
            context["queues"] = DjangoRows().column(QUEUES)
            if queue:
                page = queries.messages(DjangoRows(), queue, after=_number(after or "0"), **filters)
                for each in page["messages"]:
                    each["object_id"] = f"{queue} {each['sequence_number']}"
                if page["next"] is not None:
                    following = request.GET.copy()
                    following["after"] = str(page["next"])
                    context["following"] = following.urlencode()
                context["page"] = page
        except PGQueueError as error:
            context["error"] = str(error)
        return self._shown(request, "list", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> TemplateResponse:
        """One message with its body; ``object_id`` is the queue and the number."""
        self._check_right(request)
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        name = unquote(object_id)
        queue, _, number = name.rpartition(" ")
        context: dict[str, Any] = {"queue": queue, "subtitle": name}
        try:
            message = queries.message(DjangoRows(), queue, _number(number))
            shown = [(name, value) for name, value in message.items() if value is not None and name not in SHOWN_APART]
            context |= {"message": message, "properties": shown}
        except MessageNotFoundError as error:
            raise Http404(str(error)) from error
        except PGQueueError as error:
            context["error"] = str(error)
        return self._shown(request, "form", context)

    def _check_right(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _shown(self, request: HttpRequest, kind: str, context: dict[str, Any]) -> TemplateResponse:
        context |= {**self.admin_site.each_context(request), "opts": self.opts, "title": "Messages"}
        return TemplateResponse(request, f"admin/pgqueue/queuedmessage/change_{kind}.html", context)


def _resubmit(letters: Sequence[tuple[str, int]], user: str) -> int:
    """Resubmits dead letters, by queue and number, and records the user in the audit log; returns their number.

    All or none; those that are locked, or no longer there, are skipped.
    """
    using = router.db_for_write(DeadLetter)
    rows, resubmitted = DjangoRows(using), 0
    with atomic(using=using):
        for queue in sorted({queue for queue, _ in letters}):
            numbers = [number for name, number in letters if name == queue]
            done = rows.value(RESUBMIT, queue=queue, numbers=numbers)
            details = json.dumps({"user": user, "numbers": numbers[:RECORDED]})
            rows.value(RECORD, queue=queue, messages=done, details=details)
            resubmitted += done
    return resubmitted


def _number(text: str) -> int:
    """A number in an address.

    Raises:
        Http404: it is none, or larger than numbers are.
    """
    if not (text.isascii() and text.isdigit()) or int(text) > queries.LAST:
        raise Http404(f"{text!r} is no number of a message")
    return int(text)
