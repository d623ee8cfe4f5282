"""Rules that hold for every round: pure functions over the books and the database's last state.

Each yields the violations that are certain. An operation whose outcome is unknown may have been done or not, and
explains either; so silence is earned by operations that did end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from operator import attrgetter

from benchmarks.chaos.deeds import FINAL, Deeds, Delivery, Send, Settlement
from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.history import Operation, Outcome

USED_TWICE = re.compile(r"^number \d+ of queue \d+ is that of \d+ messages$")
UNIQUE = "23505"

#: A fault is between the library and its caller, and a session may be released whose lock is lost.
UNPROVEN = ("fault", "release")

#: A delivery that a handler notes was received before, by at most so many seconds.
NOTED_LATE = 1.0


@dataclass(frozen=True)
class Violation:
    """A broken rule, and the operations that show it."""

    rule: str
    text: str
    operations: tuple[Operation, ...] = ()
    message: str | None = None

    def __str__(self) -> str:
        lines = [f"    {operation.about(self.message)}" for operation in self.operations]
        return "\n".join([f"{self.rule}: {self.text}", *lines])


@dataclass(frozen=True)
class Case:
    """The material for a rule: ``lock_seconds`` is how long every lock lasts that is not renewed."""

    deeds: Deeds
    evidence: Evidence
    lock_seconds: float


Rule = Callable[[Case], Iterator[Violation]]


def conservation(case: Case) -> Iterator[Violation]:
    """Each message that was acknowledged is done once, dead, still there, or was purged; and none was never sent."""
    for send in case.deeds.sends.values():
        places = case.evidence.places(send.message)
        if send.operation.outcome is Outcome.FAIL and places:
            yield _about(case, send.message, f"was refused or rolled back, and is there: {', '.join(places)}")
        if send.operation.outcome is Outcome.OK and not places and not _may_be_gone(case, send):
            yield _about(case, send.message, "was acknowledged, and is nowhere: LOST")
    yield from _misplaced(case)
    for message in {*case.evidence.effects, *case.evidence.by_message} - case.deeds.sends.keys():
        yield _about(case, message, "is there, and was never sent")


def exactly_once(case: Case) -> Iterator[Violation]:
    """No message is done twice, nor done and still there."""
    for message in case.deeds.sends:
        places = case.evidence.places(message) + [
            f"settled by {each.operation.name}"
            for each in case.deeds.settlements.get(message, ())
            if each.how in FINAL and not each.effect and each.how != "dead_letter" and each.is_done
        ]
        if len(places) > 1:
            yield _about(case, message, f"is in more than one place: {', '.join(places)}: DOUBLED")


def exclusivity(case: Case) -> Iterator[Violation]:
    """No message is given out while another receiver's lock on it lasts, by the database's clock.

    Where that clock was moved in between, times prove nothing; then the tokens do, see :func:`fence`.
    """
    for message, deliveries in case.deeds.deliveries.items():
        by_token: dict[str | None, list[Settlement]] = defaultdict(list)
        for settlement in case.deeds.settlements.get(message, ()):
            by_token[settlement.token].append(settlement)
        for one, next_one in pairwise(deliveries):
            if one.token == next_one.token:
                continue
            settlements = by_token[one.token]
            left = _held_until(settlements, one, next_one) - _delivered(case, next_one)
            if left > 0 and not _was_given_up(settlements, next_one) and not _clock_moved(case, one, next_one):
                yield Violation(
                    "exclusivity",
                    f"message {message} was delivered while another's lock on it lasted {left:.3f} s more",
                    (one.operation, next_one.operation),
                    message,
                )


def fence(case: Case) -> Iterator[Violation]:
    """No settlement succeeds with a lock that was given to another receiver before; nothing settled is delivered.

    A receiver that prefetches may hand out what it has locked earlier, which is a delivery with a smaller count.
    """
    for message, settlements in case.deeds.settlements.items():
        deliveries = case.deeds.deliveries.get(message, [])
        counts = {each.token: each.count for each in deliveries}
        first_ended = _least_from([each.operation.ended for each in deliveries])
        for settlement in settlements:
            if settlement.how in UNPROVEN or not (settlement.is_done or settlement.outcome is Outcome.OK):
                continue
            for delivery in _later(deliveries, first_ended, counts, settlement):
                both = (delivery.operation, settlement.operation)
                if _supersedes(delivery, settlement, counts):
                    yield Violation(
                        "fence", f"message {message}: {settlement.how} with a superseded lock", both, message
                    )
                if (
                    settlement.how in FINAL
                    and settlement.is_done
                    and settlement.operation.ended < delivery.operation.invoked
                    and delivery.count >= counts.get(settlement.token or "", 0)
                ):
                    yield Violation(
                        "fence", f"message {message} was delivered after it was settled", both[::-1], message
                    )


def truth(case: Case) -> Iterator[Violation]:
    """The library's report on a settlement is true: COMPLETED is done, RECEIVED is not.

    Where a failover has forgotten the message itself, its completion was forgotten with it.
    """
    for message, settlements in case.deeds.settlements.items():
        effects = case.evidence.effects.get(message, ())
        for each in settlements:
            if not each.effect:
                continue
            is_there = each.operation.name in effects
            if each.is_done and not is_there and not _may_be_forgotten(case, message):
                yield _lie(each, "but the database holds nothing of it")
            if each.is_undone and is_there:
                yield _lie(each, "but the database holds its effect")
            if each.operation.facts.get("prepared_state"):
                yield _lie(each, f"and {each.operation.facts['prepared_state']} while it was only prepared")
        if not case.evidence.places(message) and not _may_be_forgotten(case, message):
            yield from _denied(settlements)


def order(case: Case) -> Iterator[Violation]:
    """The messages of a session are done in the order in which they were sent, where one send ended before the next
    began, or both were one. A scheduled message comes to the end of its session when it is due; what is sent when the
    sequence of numbers has gone back may come before others."""
    at = case.evidence.done_at
    for sends in _by_session(case).values():
        known = [
            each
            for each in sends
            if _has_a_place(each)
            and each.operation.ended < case.deeds.first_rewind
            and not _may_be_done_again(case, each.message)
        ]
        known.sort(key=lambda each: at[each.message])
        first_sent = _least_from([each.operation.ended for each in known])
        batches: dict[int, list[Send]] = defaultdict(list)
        for send in known:
            batches[id(send.operation)].append(send)
        for nth, send in enumerate(known):
            is_overtaken = first_sent[nth] < send.operation.invoked
            done_later = known[nth:] if is_overtaken else batches[id(send.operation)]
            late = [each for each in done_later if _precedes(each, send) and at[each.message] > at[send.message]]
            if late:
                about = _about(
                    case, late[0].message, f"was done after message {send.message}, its successor in a session"
                )
                yield Violation("order", about.text, (*about.operations, send.operation), send.message)


def state(case: Case) -> Iterator[Violation]:
    """The state of a session counts its messages that were done, and names the last one."""
    at = case.evidence.done_at
    states = {(each.queue, each.session): each for each in case.evidence.sessions}
    for session, sends in _by_session(case).items():
        done = sorted((each.message for each in sends), key=at.__getitem__)
        count = sum(len(case.evidence.effects[each]) for each in done)
        kept = states.get(session)
        if (kept.done, kept.last) != (count, done[-1]) if kept else done:
            yield Violation(
                "state",
                f"the state of session {session[1]} of {session[0]} is {kept}, but {count} of its messages were done,"
                f" the last {done[-1]}",
                _about(case, done[-1], "").operations,
                done[-1],
            )


def liveness(case: Case) -> Iterator[Violation]:
    """A receiver that keeps asking gets what is there, when it is the only one and nothing is broken any more."""
    for stuck in case.evidence.stuck:
        yield Violation(
            "liveness",
            f"{len(stuck.messages)} messages of {stuck.queue} did not come to its only receiver, which kept asking for"
            f" {stuck.pulses} s; a new session got {stuck.given_to_another} of them at once:"
            f" {', '.join(stuck.messages[:5])}{' ...' if len(stuck.messages) > 5 else ''}",
            _about(case, stuck.messages[0], "").operations if stuck.messages else (),
            stuck.messages[0] if stuck.messages else None,
        )


def invariants(case: Case) -> Iterator[Violation]:
    """The tables hold no contradiction: ``pgqueue.broken_invariants()``. Only numbers that were handed out twice, since
    the sequence was set back, stay with both messages."""
    for text in case.evidence.broken_invariants:
        if not (case.deeds.rewinds and USED_TWICE.search(text)):
            yield Violation("invariants", text)


def surprises(case: Case) -> Iterator[Violation]:
    """No call fails with an error that no fault explains."""
    for operation in case.deeds.surprises:
        if operation.facts.get("sqlstate") == UNIQUE and any(
            each.invoked < operation.ended for each in case.deeds.rewinds
        ):
            continue  # a number that was handed out again is still in use
        yield Violation("surprises", f"no fault explains this: {operation.facts.get('error')}", (operation,))


RULES: tuple[Rule, ...] = (
    conservation,
    exactly_once,
    exclusivity,
    fence,
    truth,
    order,
    state,
    liveness,
    invariants,
    surprises,
)


def judge(case: Case) -> list[Violation]:
    return [violation for rule in RULES for violation in rule(case)]


def _may_be_gone(case: Case, send: Send) -> bool:
    """Whether something explains that a message is nowhere, and has left no effect."""
    settlements = case.deeds.settlements.get(send.message, ())
    queue = send.operation.queue
    return (
        any(each.how in FINAL and not each.effect and each.how != "dead_letter" for each in settlements)
        or any(wipe.queue == queue and _may_reach(wipe, send) for wipe in case.deeds.wipes)
        or any(take.queue == queue and take.ended >= send.operation.invoked for take in case.deeds.lost_takes)
    )


def _by_session(case: Case) -> dict[tuple[str, str], list[Send]]:
    """The messages that were done, by session."""
    by_session: dict[tuple[str, str], list[Send]] = defaultdict(list)
    for send in case.deeds.sends.values():
        if send.session and send.message in case.evidence.effects:
            by_session[send.session].append(send)
    return by_session


def _has_a_place(send: Send) -> bool:
    return send.operation.outcome is Outcome.OK and not send.operation.facts.get("scheduled")


def _precedes(one: Send, other: Send) -> bool:
    if one.operation is other.operation:
        ids = one.operation.facts["ids"]
        return bool(ids.index(one.message) < ids.index(other.message))
    return one.operation.ended < other.operation.invoked


def _may_be_done_again(case: Case, message: str) -> bool:
    """Whether a failover may have forgotten that the message was done: its successors are done by then."""
    effects = case.evidence.effects[message]
    return any(
        loss.invoked <= each.operation.ended and each.operation.invoked <= loss.ended
        for each in case.deeds.settlements.get(message, ())
        for loss in case.deeds.losses
        if each.operation.name not in effects
    )


def _may_be_forgotten(case: Case, message: str) -> bool:
    """Whether a failover may have forgotten the message itself."""
    send = case.deeds.sends.get(message)
    return send is not None and "forgotten" in send.operation.facts


def _may_reach(wipe: Operation, send: Send) -> bool:
    return wipe.outcome is not Outcome.FAIL and wipe.ended >= send.operation.invoked


def _misplaced(case: Case) -> Iterator[Violation]:
    for stored in case.evidence.stored:
        if stored.queue is None:
            yield _about(case, stored.message, "is stored without a queue, out of anybody's reach: LOST")
    for message, settlements in case.deeds.settlements.items():
        dead = any(each.how == "dead_letter" and each.is_done for each in settlements)
        if dead and "dead" not in case.evidence.places(message):
            yield _about(case, message, "was dead-lettered, and is not among the dead letters: LOST")


def _delivered(case: Case, delivery: Delivery) -> float:
    """When it was delivered at the latest. Its lock runs from the moment at which the receive began; who has taken a
    turn first, or waited, was given the message later than that, but before the receive ended."""
    operation = delivery.operation
    late = NOTED_LATE if operation.facts.get("noted") else operation.ended - operation.invoked
    return delivery.until - case.lock_seconds + late


def _held_until(settlements: Sequence[Settlement], one: Delivery, next_one: Delivery) -> float:
    """The settlements are those with its token."""
    renewed = [
        float(each.operation.facts["until"])
        for each in settlements
        if each.how == "renew" and each.outcome is Outcome.OK and each.operation.ended < next_one.operation.invoked
    ]
    return max([one.until, *renewed])


def _was_given_up(settlements: Sequence[Settlement], next_one: Delivery) -> bool:
    """The settlements are those with the token of the delivery before."""
    return any(
        each.how != "renew" and each.outcome is not Outcome.FAIL and each.operation.invoked < next_one.operation.ended
        for each in settlements
    )


def _clock_moved(case: Case, one: Delivery, next_one: Delivery) -> bool:
    return any(
        step.invoked <= next_one.operation.ended and step.ended >= one.operation.invoked for step in case.deeds.steps
    )


def _later(
    deliveries: Sequence[Delivery], first_ended: Sequence[float], counts: dict[str, int], settlement: Settlement
) -> Sequence[Delivery]:
    """The deliveries that may contradict a settlement. A session's lock is delivered and settled very often."""
    if settlement.how in FINAL:
        return deliveries
    first = bisect_right(deliveries, counts.get(settlement.token or "", inf), key=attrgetter("count"))
    is_late = first < len(deliveries) and first_ended[first] < settlement.operation.invoked
    return deliveries[first:] if is_late else ()


def _least_from(numbers: Sequence[float]) -> list[float]:
    """For each place the least number from there to the end."""
    return [*accumulate(reversed(numbers), min)][::-1]


def _supersedes(delivery: Delivery, settlement: Settlement, counts: dict[str, int]) -> bool:
    return (
        settlement.token in counts
        and delivery.token != settlement.token
        and delivery.count > counts[settlement.token]
        and delivery.operation.ended < settlement.operation.invoked
    )


def _denied(settlements: Sequence[Settlement]) -> Iterator[Violation]:
    """A message that is gone without an effect, though all that may have removed it report that they have not."""
    removals = [each for each in settlements if each.how in FINAL and not each.effect]
    if removals and all(each.is_undone for each in removals):
        yield _lie(removals[-1], "but the message is gone, and no other operation removed it")


def _lie(settlement: Settlement, text: str) -> Violation:
    said = f"reported {settlement.state.upper()}" if settlement.state else f"ended with {settlement.outcome.value}"
    return Violation(
        "truth",
        f"{settlement.how} of message {settlement.message} {said}, {text}",
        (settlement.operation,),
        settlement.message,
    )


def _is_amid(wipe: Operation, send: Operation) -> bool:
    return wipe.queue == send.queue and wipe.ended >= send.invoked and wipe.invoked <= send.ended


def _about(case: Case, message: str, text: str) -> Violation:
    """With all that is known of the message."""
    send = case.deeds.sends.get(message)
    told = [
        *([send.operation] if send else []),
        *(each.operation for each in case.deeds.deliveries.get(message, ())),
        *(each.operation for each in case.deeds.settlements.get(message, ())),
    ]
    told += [wipe for wipe in case.deeds.wipes if send and _is_amid(wipe, send.operation)]
    told.sort(key=lambda each: each.invoked)
    rule = "exactly once" if "DOUBLED" in text else "conservation"
    return Violation(rule, f"message {message} {text}", tuple(told), message)
