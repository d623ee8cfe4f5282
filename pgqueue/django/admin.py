"""Admin pages to look at queues, messages and dead letters, and to resubmit these. Commands and SQL do the rest."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.utils.functional import cached_property

from pgqueue.dashboard.queries import LAST, STATES
from pgqueue.django import browsing
from pgqueue.django.models import DeadLetter, Queue, QueuedMessage
from pgqueue.errors import MessageNotFoundError, PGQueueError

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
            done = browsing.resubmit(letters, request.user.get_username())
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
        filters = {name: request.GET.get(name) or None for name in browsing.FILTERS}
        context: dict[str, Any] = {"queue": queue, "after": after, "filters": filters, "states": STATES}
        try:
            context["queues"] = browsing.queue_names()
            if queue:
                context |= browsing.page(queue, _number(after or "0"), filters)
        except PGQueueError as error:
            context["error"] = str(error)
        if context.get("next") is not None:
            following = request.GET.copy()
            following["after"] = str(context["next"])
            context["following"] = following.urlencode()
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
            context["message"] = browsing.message(queue, _number(number))
            context["properties"] = browsing.properties(context["message"])
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


def _number(text: str) -> int:
    """A number in an address.

    Raises:
        Http404: it is none, or larger than numbers are.
    """
    if not (text.isascii() and text.isdigit()) or int(text) > LAST:
        raise Http404(f"{text!r} is no number of a message")
    return int(text)
