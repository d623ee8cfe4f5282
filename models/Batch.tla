------------------------------------ MODULE Batch -----------------------------------
(* Messages that are settled together: complete_batch and its kin, in a transaction of their own, where each lock counts *)
(* for itself, or in the caller's, with the work on all of them (pgqueue/flows/batches.py).                              *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Receivers,
    Messages,
    MaxTokens,    \* how often messages are received; those of one receive have one token
    Broken        \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

VARIABLES
    row,          \* of each message: whether it is there, its token, and whether that lock lasts
    drawn,        \* the last token
    expired,      \* tokens whose locks have expired
    context,      \* of each receiver and message what the receiver knows of its delivery
    work,         \* of each receiver its open transaction: which locks are still to be proved, and which were
    effects,      \* how often each message took effect
    endings,      \* which deliveries were settled: the message, the token, and by whom
    faults        \* what must never have happened

vars == <<row, drawn, expired, context, work, effects, endings, faults>>

Idle == [kind |-> "none", left |-> {}, proven |-> {}, lost |-> {}]

Init ==
    /\ row = [m \in Messages |-> [isThere |-> TRUE, token |-> 0, lasts |-> FALSE]]
    /\ drawn = 0 /\ expired = {}
    /\ context = [r \in Receivers |-> [m \in Messages |-> [token |-> 0, state |-> "none"]]]
    /\ work = [r \in Receivers |-> Idle]
    /\ effects = [m \in Messages |-> 0] /\ endings = {} /\ faults = {}

With(r, state)    == {m \in Messages : context[r][m].state = state}
Set(r, ms, state) == [m \in Messages |-> IF m \in ms THEN [context[r][m] EXCEPT !.state = state] ELSE context[r][m]]
IsHeld(m, r)      == \E other \in Receivers \ {r} : m \in work[other].proven
Proves(r, m)      == row[m].isThere /\ (row[m].token = context[r][m].token \/ ~Rule("each lock of a batch is proved"))

-----------------------------------------------------------------------------------
Receive(r, ms) ==
    /\ work[r].kind = "none" /\ drawn < MaxTokens /\ ms # {}
    /\ \A m \in ms : /\ row[m].isThere /\ ~row[m].lasts /\ ~IsHeld(m, r)
                     /\ context[r][m].state \notin {"RECEIVED", "IN DOUBT"}
    /\ drawn' = drawn + 1
    /\ row' = [m \in Messages |-> IF m \in ms THEN [isThere |-> TRUE, token |-> drawn + 1, lasts |-> TRUE] ELSE row[m]]
    /\ context' = [context EXCEPT ![r] =
          [m \in Messages |-> IF m \in ms THEN [token |-> drawn + 1, state |-> "RECEIVED"] ELSE context[r][m]]]
    /\ UNCHANGED <<expired, work, effects, endings, faults>>

Expire(token) ==
    /\ token \notin expired /\ token <= drawn
    /\ expired' = expired \cup {token}
    /\ row' = [m \in Messages |-> IF row[m].token = token THEN [row[m] EXCEPT !.lasts = FALSE] ELSE row[m]]
    /\ UNCHANGED <<drawn, context, work, effects, endings, faults>>

Begin(r, kind) ==
    /\ work[r].kind = "none" /\ With(r, "RECEIVED") # {} /\ With(r, "IN DOUBT") = {}
    /\ work' = [work EXCEPT ![r] = [Idle EXCEPT !.kind = kind, !.left = With(r, "RECEIVED")]]
    /\ context' = [context EXCEPT ![r] = Set(r, With(r, "RECEIVED"), "COMPLETING")]
    /\ UNCHANGED <<row, drawn, expired, effects, endings, faults>>

(* _lock_proven, row by row. Only who has the token waits for a row. *)
Prove(r, m) ==
    /\ m \in work[r].left
    /\ IF Proves(r, m)
          THEN ~IsHeld(m, r) /\ work' = [work EXCEPT ![r].left = @ \ {m}, ![r].proven = @ \cup {m}]
          ELSE work' = [work EXCEPT ![r].left = @ \ {m}, ![r].lost = @ \cup {m}]
    /\ UNCHANGED <<row, drawn, expired, context, effects, endings, faults>>

(* _settlement_results. *)
IsRefused(r) == work[r].kind = "callers" /\ work[r].lost # {} /\ Rule("a lost lock aborts the caller's batch")
MayCommit(r) == work[r].kind # "none" /\ work[r].left = {} /\ ~IsRefused(r)

Apply(r) ==
    LET proven == work[r].proven
    IN /\ row' = [m \in Messages |-> IF m \in proven THEN [isThere |-> FALSE, token |-> 0, lasts |-> FALSE] ELSE row[m]]
       /\ effects' = [m \in Messages |->
             effects[m] + (IF work[r].kind = "callers" /\ m \in proven \cup work[r].lost THEN 1 ELSE 0)]
       /\ endings' = endings \cup {<<m, context[r][m].token>> : m \in proven}
       /\ faults' = faults \cup {m \in proven : row[m].token # context[r][m].token}

Reported(r) ==
    IF work[r].lost = {} \/ ~Rule("each lock of a batch is reported apart") THEN Set(r, With(r, "COMPLETING"), "COMPLETED")
    ELSE IF ~Rule("a lost lock hides no other") THEN Set(r, With(r, "COMPLETING"), "LOST")
    ELSE [m \in Messages |-> IF m \in work[r].proven THEN [context[r][m] EXCEPT !.state = "COMPLETED"]
                             ELSE IF m \in work[r].lost THEN [context[r][m] EXCEPT !.state = "LOST"] ELSE context[r][m]]

Commit(r) ==
    /\ MayCommit(r) /\ Apply(r)
    /\ context' = [context EXCEPT ![r] = Reported(r)]
    /\ work' = [work EXCEPT ![r] = Idle]
    /\ UNCHANGED <<drawn, expired>>

Abort(r) ==
    /\ work[r].kind # "none"
    /\ context' = [context EXCEPT ![r] = Set(r, With(r, "COMPLETING"), "RECEIVED")]
    /\ work' = [work EXCEPT ![r] = Idle]
    /\ UNCHANGED <<row, drawn, expired, effects, endings, faults>>

(* The connection breaks; in a transaction of the batch's own no id has arrived, so the messages are asked about. *)
Break(r, isDone) ==
    /\ work[r].kind = "own"
    /\ IF isDone THEN MayCommit(r) /\ Apply(r) ELSE UNCHANGED <<row, effects, endings, faults>>
    /\ context' = [context EXCEPT ![r] = Set(r, With(r, "COMPLETING"), "IN DOUBT")]
    /\ work' = [work EXCEPT ![r] = Idle]
    /\ UNCHANGED <<drawn, expired>>

(* resolve, without an id. *)
Answer(r, m) ==
    IF row[m].isThere /\ row[m].token = context[r][m].token THEN "RECEIVED"
    ELSE IF context[r][m].token \in expired /\ Rule("an expired lock proves no settlement") THEN "FAULTED"
    ELSE IF row[m].isThere THEN "FAULTED" ELSE "COMPLETED"

Resolve(r) ==
    /\ With(r, "IN DOUBT") # {}
    /\ \E first \in With(r, "IN DOUBT") :
          context' = [context EXCEPT ![r] = [m \in Messages |->
             IF context[r][m].state # "IN DOUBT" THEN context[r][m]
             ELSE [context[r][m] EXCEPT !.state = Answer(r, IF Rule("each message in doubt is asked about") THEN m ELSE first)]]]
    /\ UNCHANGED <<row, drawn, expired, work, effects, endings, faults>>

Next ==
    \/ \E token \in 1 .. MaxTokens : Expire(token)
    \/ \E r \in Receivers :
          \/ \E ms \in SUBSET Messages : Receive(r, ms)
          \/ \E kind \in {"own", "callers"} : Begin(r, kind)
          \/ \E m \in Messages : Prove(r, m)
          \/ Commit(r) \/ Abort(r) \/ Break(r, TRUE) \/ Break(r, FALSE) \/ Resolve(r)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
(* Work in the caller's transaction takes effect once for each message, and never without its settlement. *)
NothingTakesEffectTwice ==
    \A m \in Messages : effects[m] <= 1 /\ (effects[m] = 1 => ~row[m].isThere)

(* Each message is settled once, under its lock. *)
SettlementsAreLegal ==
    /\ faults = {}
    /\ \A m \in Messages : Cardinality({token \in 1 .. MaxTokens : <<m, token>> \in endings}) <= 1
    /\ \A m \in Messages : ~row[m].isThere => \E token \in 1 .. MaxTokens : <<m, token>> \in endings

(* What was reported, or answered later, of each message of a batch. *)
ReportedStatesAreTrue ==
    \A r \in Receivers, m \in Messages :
        /\ context[r][m].state = "COMPLETED" => <<m, context[r][m].token>> \in endings
        /\ context[r][m].state \in {"RECEIVED", "LOST"} => <<m, context[r][m].token>> \notin endings
====
