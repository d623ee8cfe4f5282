"""The checks: the models, the twins that TLC has to refute, and the rules whose lack it does not notice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
INVARIANTS = {
    "Cursor": ("NoMessageIsClaimedByTwo", "EveryReceiverReceivesAll"),
    "Session": ("TypesAreRight", "NothingNewIsPassed"),
    "MessageSessions": ("EverySessionIsFound", "TheHolderSettles", "NothingIsPassed"),
    "Claims": ("EachTakesEffectOnce", "NobodySettlesWhatItHasNotSeen"),
    "Life": (
        "NothingTakesEffectTwice",
        "NothingIsLost",
        "TheDeadRest",
        "SettlementsAreLegal",
        "ReportedStatesAreTrue",
    ),
    "InDoubt": ("NothingIsDoneTwice", "NothingIsLost", "MostIsKnown"),
    "Batch": ("NothingTakesEffectTwice", "SettlementsAreLegal", "ReportedStatesAreTrue"),
    "SessionLife": (
        "NothingTakesEffectTwice",
        "NothingIsLost",
        "TheHolderDecides",
        "NoTransactionIsOvertaken",
        "ReportedStatesAreTrue",
    ),
    "Forward": ("NothingTakesEffectTwice", "NothingIsLost", "EverythingArrives", "SettlementsAreLegal"),
    "Handler": ("NothingTakesEffectTwice", "NothingIsLost", "ReportedStatesAreTrue"),
    "Failover": ("NothingTakesEffectTwice", "AnswersAreTrue", "NothingIsDoneAgain", "OneHolds"),
}


@dataclass(frozen=True)
class Model:
    """A module with constants that are small enough."""

    name: str
    module: str
    constants: str


@dataclass(frozen=True)
class Check:
    """A model without some of its rules, and whether it still has to hold; `why` where that needs a reason."""

    model: Model
    broken: tuple[str, ...] = ()
    holds: bool = True
    why: str = ""

    def __str__(self) -> str:
        return f"{self.model.name}{', without: ' if self.broken else ''}{' + '.join(self.broken)}"


def cursor(name: str, **differing: object) -> Model:
    constants: dict[str, object] = {
        "MaxXid": 2,
        "MaxNumber": 2,
        "Claims": False,
        "Savepoints": False,
        "Backs": 0,
        "Restores": 0,
    }
    return Model(
        name,
        "Cursor",
        " ".join(f"{key}={str(value).upper()}" for key, value in {**constants, **differing}.items()) + " Seconds=4",
    )


CLAIMED = cursor("cursor, claims", MaxNumber=3, Claims=True)
FEW = cursor("cursor, few claims", Claims=True)
SAVEPOINTS = cursor("cursor, savepoints", MaxXid=3, MaxNumber=3, Savepoints=True)
LATE = cursor("cursor, many senders", MaxXid=3, MaxNumber=4)
SEQUENCE = cursor("cursor, sequence", MaxNumber=3, Backs=1)
HELD = cursor("cursor, sequence and claims", MaxNumber=1, Claims=True, Backs=1)
RESTORE = cursor("cursor, restore", MaxNumber=3, Restores=1)
SESSION = Model("session", "Session", "Senders=2 MaxNumber=3")
EPOCHS = Model("claims of Spark", "Claims", 'Drivers={"A", "B"} Messages={1, 2} MaxEpoch=2 MaxClaims=2 MaxDrops=1')
MESSAGE_SESSIONS = Model("message sessions", "MessageSessions", 'Senders=3 Receivers={"A", "B"} MaxToken=3')
SENDS = Model("commit in doubt, of a send", "InDoubt", "Settles=FALSE MaxXid=4 MaxRuns=3")
SETTLES = Model("commit in doubt, of a settlement", "InDoubt", "Settles=TRUE MaxXid=4 MaxRuns=3")


def life(name: str, messages: str, tokens: int, deliveries: int, crashes: int, receivers: str = '"A", "B"') -> Model:
    return Model(
        name,
        "Life",
        f"Receivers={{{receivers}}} Messages={{{messages}}} MaxTokens={tokens} MaxDeliveries={deliveries}"
        f" MaxCrashes={crashes}",
    )


LIFE = life("life of a message", "1", 2, 1, 1)
LIVES = life("lives of two messages", "1, 2", 1, 1, 0)
CHAIN = life("lives in a chain", "1, 2", 2, 2, 1, '"A"')
BATCH = Model("batches", "Batch", 'Receivers={"A", "B"} Messages={1, 2} MaxTokens=2')
MORE_BATCHES = Model("batches, more receives", "Batch", 'Receivers={"A", "B"} Messages={1, 2} MaxTokens=3')
SESSION_LIFE = Model(
    "life in a session", "SessionLife", 'Receivers={"A", "B"} Messages={1} MaxTokens=2 MaxDeliveries=2 MaxBreaks=1'
)
SESSION_ORDER = Model(
    "order in a session", "SessionLife", 'Receivers={"A", "B"} Messages={1, 2} MaxTokens=2 MaxDeliveries=2 MaxBreaks=0'
)
FORWARDS = Model("forwarding", "Forward", 'Queues={1, 2, 3} Receivers={"A"} MaxTokens=1 MaxChanges=3')
FORWARDED = Model("forwarding under locks", "Forward", 'Queues={1, 2} Receivers={"A", "B"} MaxTokens=2 MaxChanges=1')
PINNED = Model("work in a transaction", "Handler", "Begins=TRUE MaxTx=3")
UNPINNED = Model("work without a transaction", "Handler", "Begins=FALSE MaxTx=2")
FAILOVER = Model("life across failovers", "Failover", 'Receivers={"A", "B"} MaxXid=2 MaxTokens=2 MaxRuns=2')

MODELS = (
    CLAIMED,
    RESTORE,
    SEQUENCE,
    SAVEPOINTS,
    HELD,
    SESSION,
    MESSAGE_SESSIONS,
    EPOCHS,
    SENDS,
    SETTLES,
    CHAIN,
    LIVES,
    LIFE,
    BATCH,
    SESSION_ORDER,
    SESSION_LIFE,
    FORWARDS,
    FORWARDED,
    UNPINNED,
    PINNED,
    FAILOVER,
)

# Each line is a twin: the model in which TLC finds a counterexample, and the rules that are left out.
TWINS: tuple[tuple[Model, *tuple[str, ...]], ...] = (
    # the faults of issue 14: 1, 2 and 20, as they were
    (FEW, "a session goes back", "the cursor stops in turns of all receivers"),
    (SEQUENCE, "the sweep repairs"),
    (EPOCHS, "a settlement names the claim", "a settlement names the epoch"),
    # of send
    (FEW, "an id before a number"),
    # of _load_scan
    (FEW, "a session goes back"),
    (SEQUENCE, "a session forgets what lies ahead"),
    # of _take_turn
    (FEW, "a turn looks at who has ended"),
    (HELD, "a turn looks at the sequence"),
    # of _advance_cursors, _next_xid, _watch_passed, _watch_late_commits
    (FEW, "the number is read before the id"),
    (FEW, "the id is above all handed out"),
    (FEW, "open transactions are read before the messages"),
    (FEW, "open transactions are awaited"),
    (FEW, "awaited from where the cursor stood"),
    (FEW, "awaited until they end"),
    (FEW, "passed messages are watched"),
    (FEW, "late messages are watched"),
    (LATE, "watched from the lowest place awaited", "the cursor stops before what is free"),
    # of _redeliver_watched
    (FEW, "only what is free returns"),
    (FEW, "held messages stay watched"),
    (FEW, "returning messages get a new position"),
    # of _repair_sequence
    (SEQUENCE, "a turn repairs the sequence"),
    (SEQUENCE, "the repair begins at the front"),
    (SEQUENCE, "the repair begins in every lane"),
    (SEQUENCE, "the repair awaits all open transactions"),
    (SEQUENCE, "the repair awaits them from the front", "the cursor stops before what is free"),
    (SEQUENCE, "the repair waits for no other queue"),
    (SEQUENCE, "the sequence is set in a later transaction"),
    # of _move_scan
    (SESSION, "settled before the scan"),
    (SESSION, "an id proves nothing in its own transaction"),
    (SESSION, "all smaller ids are over"),
    (SESSION, "the number is older than the id"),
    (SESSION, "no further than is settled"),
    # of _announce_sessions, _forget_waiting
    (MESSAGE_SESSIONS, "a sender shares the row"),
    (MESSAGE_SESSIONS, "rows that a sender shares are left"),
    (MESSAGE_SESSIONS, "messages are looked for after the lock"),
    # of accept_session, receive_from_session and settlements
    (MESSAGE_SESSIONS, "a settlement pins the session"),
    (MESSAGE_SESSIONS, "a settlement proves the session's lock"),
    # of attach_consumer, complete_claim
    (EPOCHS, "a settlement names the epoch"),
    (EPOCHS, "each session draws an epoch"),
    (EPOCHS, "epochs go on when a consumer is dropped"),
    (EPOCHS, "a claim is settled once"),
    # of resolve, server_run and statements/sending.py
    *(
        (model, rule)
        for model in (SENDS, SETTLES)
        for rule in (
            "a standby knows no outcome",
            "an id names its timeline",
            "an id names its run on the timeline",
            "an open transaction is in progress",
        )
    ),
    (SETTLES, "a failover may have forgotten the lock"),
    (SETTLES, "others leave a lock that lasts"),
    # of receive, sweep, resubmit
    (LIFE, "a delivery draws a token"),
    (LIFE, "a receive leaves what is locked"),
    (LIFE, "a receive skips what a transaction holds"),
    (LIFE, "a receive delivers no more often than allowed"),
    (LIFE, "a sweep leaves what is locked"),
    (LIFE, "a resubmission leaves what is locked"),
    # of settlements, in Python what follows a transaction
    (LIFE, "a settlement proves the token"),
    (LIFE, "a settlement ends the token"),
    (LIFE, "a refusal aborts the transaction", "work begins with a pin"),
    (CHAIN, "a refusal aborts the transaction", "a chain proves the next token"),
    (LIFE, "an abort takes the settlement back"),
    (LIFE, "a broken COMMIT is asked about"),
    # of _lock_proven and _settlement_results, in Python of flows/batches.py
    (BATCH, "each lock of a batch is proved"),
    (BATCH, "each lock of a batch is reported apart"),
    (BATCH, "a lost lock hides no other"),
    (BATCH, "a lost lock aborts the caller's batch"),
    (MORE_BATCHES, "each message in doubt is asked about"),
    (BATCH, "an expired lock proves no settlement"),
    # of accept_session, release_session, receive_from_session, set_session_state, _prove_sessions, resolve
    (SESSION_LIFE, "a transaction keeps the session"),
    (SESSION_LIFE, "a receive proves the session's lock"),
    (SESSION_LIFE, "a release proves the session's lock"),
    (SESSION_ORDER, "a delayed message holds its successors up"),
    (SESSION_LIFE, "a settlement proves the message's token"),
    (SESSION_LIFE, "a settlement proves the session's token"),
    (SESSION_LIFE, "a state is written under the session's lock"),
    (SESSION_LIFE, "a younger row proves nothing"),
    # of _set_forwarding, drop_queue, _forward_waiting, _forward
    (FORWARDS, "forwarding is changed by one after the other"),
    (FORWARDS, "forwarding leads nowhere back"),
    (FORWARDS, "a change holds its target"),
    (FORWARDS, "a target of others is not dropped"),
    (FORWARDS, "a forward holds its target"),
    (FORWARDS, "a forward looks whether its target is there"),
    (FORWARDED, "a forward leaves what is locked"),
    (FORWARDED, "a forward skips what a transaction holds"),
    (FORWARDED, "a settlement proves the queue and the token"),
    # of in_transaction, complete, and flows/processing.py
    (PINNED, "a pinned message is settled in its transaction"),
    (PINNED, "the database is asked about a settlement by the work"),
    (PINNED, "an undone settlement is refused"),
    (UNPINNED, "a savepoint has an id of its own"),
    (UNPINNED, "a settlement that is left open is refused"),
    # of receive and resolve
    (FAILOVER, "a token is random"),
    *(
        (FAILOVER, rule)
        for rule in (
            "a standby knows no outcome",
            "an id names its timeline",
            "an id names its run on the timeline",
            "an open transaction is in progress",
            "a failover may have forgotten the lock",
        )
    ),
)

# Rules that can be left out without a loss, and why each exists.
SPARED = (
    (FEW, "the horizon is a turn old", "so that short transactions are over, and need not be awaited"),
    (FEW, "the cursor stops before what is free", "so that what waits is not put under watch, and comes in its order"),
    (FEW, "the cursor stops in turns of all receivers", "a session goes back, wherever the cursor stops"),
    (FEW, "the cursor passes held rows", "so that one long transaction does not make every session walk from there"),
    (
        MESSAGE_SESSIONS,
        "a receive stops at what a transaction holds",
        "a settlement pins the session: its holder's transaction is over",
    ),
    (LIFE, "a renewal proves the token", "it would only prolong the lock of another"),
    (LIFE, "work begins with a pin", "so that no work is done in vain: the settlement decides"),
    (CHAIN, "a chain proves the next token", "the same: the settlement decides"),
    (EPOCHS, "a settlement names the claim", "a driver of the current epoch works on the newest claim"),
    (EPOCHS, "a task checks the claim after it has read", "a transaction is refused later; other work settles nothing"),
)

CHECKS = (
    *(Check(model) for model in MODELS),
    *(Check(model, tuple(rules), holds=False) for model, *rules in TWINS),
    *(Check(model, (rule,), why=why) for model, rule, why in SPARED),
)


def rules(module: str) -> set[str]:
    """The rules that a module names."""
    return set(re.findall(r'Rule\("([^"]+)"\)', (HERE / f"{module}.tla").read_text()))


def unknown() -> set[str]:
    """Rules in the modules that this table does not name, and the other way round."""
    named = {rule for check in CHECKS for rule in check.broken}
    return named ^ set().union(*map(rules, INVARIANTS))
