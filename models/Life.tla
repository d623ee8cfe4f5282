------------------------------------- MODULE Life -----------------------------------
(* The whole life of a message: sent, delivered under locks that expire, settled in transactions that commit, abort,  *)
(* or break in their COMMIT, set aside and fetched again. Receivers are processes that pause between any two steps.   *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Receivers,
    Messages,
    MaxDeliveries,    \* how often a message is delivered before it is dead-lettered
    MaxTokens,        \* how many deliveries of a message there are in all
    MaxCrashes,       \* how often the server crashes
    Broken            \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

VARIABLES
    row,         \* of each message what is committed: where it is, its lock, its count, and to whom it was delivered last
    context,     \* of each receiver and message what the receiver knows of its delivery: its ReceiveContext
    work,        \* of each receiver its open transaction: the rows it holds, what it does to them, and the effects in it
    effects,     \* how often each message took effect
    endings,     \* how often each delivery was settled
    crashes,
    faults       \* what must never have happened

vars == <<row, context, work, effects, endings, crashes, faults>>

Nobody == "nobody"
Tokens == 1 .. MaxTokens

(* Where a settlement leads to: complete, abandon, abandon with a delay, defer, dead_letter. *)
Places == {"gone", "ready", "scheduled", "deferred", "dead"}

(* What is dead or deferred goes back to where it was, unless it is completed, or dead-lettered. *)
Goes(from, to) == IF from = "dead" /\ to # "gone" THEN "dead"
                  ELSE IF from = "deferred" /\ to \in {"ready", "scheduled"} THEN "deferred" ELSE to

Idle   == [isOpen |-> FALSE, refused |-> {}, held |-> {}, ends |-> {}, to |-> "", effects |-> {}]
NoneOf == [token |-> 0, state |-> "none"]

Init ==
    /\ row = [m \in Messages |-> [place |-> "unsent", token |-> 0, lasts |-> FALSE, count |-> 0, drawn |-> 0, by |-> Nobody]]
    /\ context = [r \in Receivers |-> [m \in Messages |-> NoneOf]]
    /\ work = [r \in Receivers |-> Idle]
    /\ effects = [m \in Messages |-> 0]
    /\ endings = [m \in Messages |-> [t \in Tokens |-> 0]]
    /\ crashes = 0 /\ faults = {}

-----------------------------------------------------------------------------------
(* What is free, who holds a row, and what a token proves. *)

IsLocked(m)   == row[m].token # 0 /\ row[m].lasts
HeldBy(m)     == {r \in Receivers : m \in work[r].held}
IsHeld(m, r)  == HeldBy(m) \ {r} # {}
Proves(r, m)  == (row[m].token = context[r][m].token \/ ~Rule("a settlement proves the token"))
                 /\ row[m].place \in {"ready", "deferred", "dead"} /\ context[r][m].token # 0
Robs(m)       == IF IsLocked(m) THEN faults \cup {"a lock was taken that lasts"} ELSE faults

(* A row without a lock. *)
Unlocked(at, place) == [at EXCEPT !.place = place, !.lasts = FALSE,
                                  !.token = IF Rule("a settlement ends the token") THEN 0 ELSE @]

-----------------------------------------------------------------------------------
(* send, schedule, take_turn, sweep, resubmit: nobody holds the message. *)

Send(m) ==
    /\ row[m].place = "unsent"
    /\ \E place \in {"ready", "scheduled"} : row' = [row EXCEPT ![m].place = place]
    /\ UNCHANGED <<context, work, effects, endings, crashes, faults>>

BecomeDue(m) ==
    /\ row[m].place = "scheduled" /\ HeldBy(m) = {}
    /\ row' = [row EXCEPT ![m].place = "ready"]
    /\ UNCHANGED <<context, work, effects, endings, crashes, faults>>

Expire(m) ==
    /\ row[m].lasts
    /\ row' = [row EXCEPT ![m].lasts = FALSE]
    /\ UNCHANGED <<context, work, effects, endings, crashes, faults>>

(* _sweep_queue: what was delivered as often as allowed dies once its lock has expired. *)
Sweep(m) ==
    /\ row[m].place = "ready" /\ row[m].count >= MaxDeliveries /\ HeldBy(m) = {}
    /\ IsLocked(m) => ~Rule("a sweep leaves what is locked")
    /\ row' = [row EXCEPT ![m] = Unlocked(@, "dead")]
    /\ faults' = Robs(m)
    /\ UNCHANGED <<context, work, effects, endings, crashes>>

Resubmit(m) ==
    /\ row[m].place = "dead" /\ HeldBy(m) = {}
    /\ IsLocked(m) => ~Rule("a resubmission leaves what is locked")
    /\ row' = [row EXCEPT ![m] = [Unlocked(@, "ready") EXCEPT !.count = 0]]
    /\ faults' = Robs(m)
    /\ UNCHANGED <<context, work, effects, endings, crashes>>

(* cancel: what waits is dead-lettered; of what is locked the lock is taken away, and its holder hears it. *)
Cancel(m) ==
    /\ row[m].place \in {"ready", "scheduled", "deferred"} /\ HeldBy(m) = {}
    /\ row' = [row EXCEPT ![m] = Unlocked(@, "dead")]
    /\ UNCHANGED <<context, work, effects, endings, crashes, faults>>

-----------------------------------------------------------------------------------
(* receive, receive_deferred, and the dead letters. *)

Deliver(r, m) ==
    LET token == IF Rule("a delivery draws a token") THEN row[m].drawn + 1 ELSE 1
    IN /\ row' = [row EXCEPT ![m] = [@ EXCEPT !.token = token, !.lasts = TRUE, !.by = r, !.drawn = @ + 1, !.count = @ + 1]]
       /\ context' = [context EXCEPT ![r][m] = [token |-> token, state |-> "RECEIVED"]]

Receive(r, m) ==
    /\ ~work[r].isOpen /\ context[r][m].state \notin {"RECEIVED", "COMPLETING"}
    /\ row[m].place \in {"ready", "deferred", "dead"} /\ row[m].drawn < MaxTokens
    /\ IsLocked(m) => ~Rule("a receive leaves what is locked")
    /\ IsHeld(m, r) => ~Rule("a receive skips what a transaction holds")
    /\ faults' = Robs(m)
    /\ IF row[m].place = "ready" /\ row[m].count >= MaxDeliveries /\ Rule("a receive delivers no more often than allowed")
          THEN row' = [row EXCEPT ![m] = Unlocked(@, "dead")] /\ UNCHANGED context
          ELSE Deliver(r, m)
    /\ UNCHANGED <<work, effects, endings, crashes>>

(* renew_lock: skips rows that a transaction holds. *)
Renew(r, m) ==
    /\ context[r][m].state = "RECEIVED" /\ ~IsHeld(m, r)
    /\ IF row[m].token = context[r][m].token \/ ~Rule("a renewal proves the token")
          THEN row' = [row EXCEPT ![m].lasts = row[m].token # 0] /\ UNCHANGED context
          ELSE context' = [context EXCEPT ![r][m].state = "LOST"] /\ UNCHANGED row
    /\ UNCHANGED <<work, effects, endings, crashes, faults>>

(* fault: no call of the database. *)
Fault(r, m) ==
    /\ context[r][m].state = "RECEIVED"
    /\ context' = [context EXCEPT ![r][m].state = "FAULTED"]
    /\ UNCHANGED <<row, work, effects, endings, crashes, faults>>

-----------------------------------------------------------------------------------
(* The caller's transaction. Who comes second to a row waits. *)

Begin(r) ==
    /\ ~work[r].isOpen
    /\ work' = [work EXCEPT ![r] = [Idle EXCEPT !.isOpen = TRUE]]
    /\ UNCHANGED <<row, context, effects, endings, crashes, faults>>

(* An error of the database aborts the transaction, whether the caller heeds it or not. *)
IsAborted(r) == work[r].refused # {} /\ Rule("a refusal aborts the transaction")

Refuse(r, m) ==
    /\ work' = [work EXCEPT ![r].refused = @ \cup {m}]
    /\ context' = [context EXCEPT ![r][m].state = "LOST"]
    /\ UNCHANGED <<row, effects, endings, crashes, faults>>

Pin(r, m) ==
    /\ work[r].isOpen /\ ~IsAborted(r) /\ context[r][m].state = "RECEIVED" /\ m \notin work[r].held
    /\ Cardinality(work[r].held) = 0 /\ ~IsHeld(m, r)
    /\ IF Proves(r, m)
          THEN work' = [work EXCEPT ![r].held = @ \cup {m}] /\ UNCHANGED <<row, context, effects, endings, crashes, faults>>
          ELSE Refuse(r, m)

Act(r, m) ==
    /\ work[r].isOpen /\ ~IsAborted(r) /\ context[r][m].state = "RECEIVED"
    /\ (m \in work[r].held \/ ~Rule("work begins with a pin"))
    /\ work' = [work EXCEPT ![r].effects = @ \cup {m}]
    /\ UNCHANGED <<row, context, effects, endings, crashes, faults>>

(* In psql a delivery that was settled can be settled again, as far as its token goes. *)
Settle(r, m, to) ==
    /\ work[r].isOpen /\ ~IsAborted(r) /\ context[r][m].state \in {"RECEIVED", "COMPLETED"} /\ work[r].ends = {}
    /\ ~IsHeld(m, r)
    /\ m \in work[r].effects => to = "gone"
    /\ IF Proves(r, m)
          THEN /\ work' = [work EXCEPT ![r].held = @ \cup {m}, ![r].ends = @ \cup {m}, ![r].to = to]
               /\ context' = [context EXCEPT ![r][m].state = "COMPLETING"]
               /\ UNCHANGED <<row, effects, endings, crashes, faults>>
          ELSE Refuse(r, m)

(* A caller settles what it has worked on, and may heed no refusal. *)
MayCommit(r) ==
    /\ work[r].isOpen /\ ~IsAborted(r)
    /\ work[r].effects \subseteq work[r].ends \cup work[r].refused

(* A row that was settled. A deferral takes back that its delivery was counted. *)
Settled(at, to) == [Unlocked(at, Goes(at.place, to)) EXCEPT !.count = IF to = "deferred" THEN @ - 1 ELSE @]

(* What a COMMIT does to the rows; of each delivery it counts the settlements. *)
Apply(r) ==
    /\ row' = [m \in Messages |-> IF m \in work[r].ends THEN Settled(row[m], work[r].to) ELSE row[m]]
    /\ effects' = [m \in Messages |-> effects[m] + (IF m \in work[r].effects THEN 1 ELSE 0)]
    /\ endings' = [m \in Messages |->
          IF m \in work[r].ends THEN [endings[m] EXCEPT ![context[r][m].token] = @ + 1] ELSE endings[m]]
    /\ faults' = faults \cup (IF \E m \in work[r].ends : row[m].by # r THEN {"a delivery was settled that is not the last"} ELSE {})

Known(r, state) == [m \in Messages |-> IF context[r][m].state = "COMPLETING" THEN [context[r][m] EXCEPT !.state = state] ELSE context[r][m]]

Commit(r) ==
    /\ MayCommit(r)
    /\ Apply(r)
    /\ context' = [context EXCEPT ![r] = Known(r, "COMPLETED")]
    /\ work' = [work EXCEPT ![r] = Idle]
    /\ UNCHANGED crashes

Abort(r) ==
    /\ work[r].isOpen
    /\ context' = [context EXCEPT ![r] = Known(r, IF Rule("an abort takes the settlement back") THEN "RECEIVED" ELSE "COMPLETED")]
    /\ work' = [work EXCEPT ![r] = Idle]
    /\ UNCHANGED <<row, effects, endings, crashes, faults>>

(* The connection breaks in the COMMIT, which was done or was not. *)
Doubt(r) == [context EXCEPT ![r] = Known(r, IF Rule("a broken COMMIT is asked about") THEN "IN DOUBT" ELSE "RECEIVED")]

BreakCommitted(r) ==
    /\ MayCommit(r) /\ work[r].ends # {}
    /\ Apply(r)
    /\ context' = Doubt(r) /\ work' = [work EXCEPT ![r] = Idle]
    /\ UNCHANGED crashes

BreakAborted(r) ==
    /\ MayCommit(r) /\ work[r].ends # {}
    /\ context' = Doubt(r) /\ work' = [work EXCEPT ![r] = Idle]
    /\ UNCHANGED <<row, effects, endings, crashes, faults>>

(* resolve: pg_xact_status; InDoubt.tla has what crashes and promotions do to it. *)
Resolve(r, m) ==
    /\ context[r][m].state = "IN DOUBT"
    /\ context' = [context EXCEPT ![r][m].state = IF endings[m][context[r][m].token] > 0 THEN "COMPLETED" ELSE "RECEIVED"]
    /\ UNCHANGED <<row, work, effects, endings, crashes, faults>>

(* The worker's trip: the COMMIT of one message, and BEGIN and pin of the next. *)
Pins(r, next) == Proves(r, next) \/ ~Rule("a chain proves the next token")

Chain(r, next) ==
    /\ MayCommit(r) /\ work[r].ends # {} /\ next \notin work[r].held
    /\ context[r][next].state = "RECEIVED" /\ ~IsHeld(next, r)
    /\ Apply(r)
    /\ work' = [work EXCEPT ![r] = [Idle EXCEPT !.isOpen = TRUE, !.refused = IF Pins(r, next) THEN {} ELSE {next},
                                                !.held = IF Pins(r, next) THEN {next} ELSE {}]]
    /\ context' = [context EXCEPT ![r] = [Known(r, "COMPLETED") EXCEPT ![next].state = IF Pins(r, next) THEN @ ELSE "LOST"]]
    /\ UNCHANGED crashes

(* The server crashes: open transactions are over, and receivers notice it; their messages are locked still. *)
Crash ==
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ work' = [r \in Receivers |-> Idle]
    /\ context' = [r \in Receivers |-> Known(r, "RECEIVED")]
    /\ UNCHANGED <<row, effects, endings, faults>>

Next ==
    \/ Crash
    \/ \E m \in Messages : Send(m) \/ BecomeDue(m) \/ Expire(m) \/ Sweep(m) \/ Resubmit(m) \/ Cancel(m)
    \/ \E r \in Receivers :
          \/ Begin(r) \/ Commit(r) \/ Abort(r) \/ BreakCommitted(r) \/ BreakAborted(r)
          \/ \E m \in Messages :
                \/ Receive(r, m) \/ Renew(r, m) \/ Fault(r, m) \/ Pin(r, m) \/ Act(r, m) \/ Resolve(r, m) \/ Chain(r, m)
                \/ \E to \in Places : Settle(r, m, to)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
(* No message takes effect twice, however often it is delivered. *)
NothingTakesEffectTwice == \A m \in Messages : effects[m] <= 1

(* A message is gone only when a delivery of it was completed; and it is not delivered more often than allowed. *)
NothingIsLost == \A m \in Messages : row[m].place = "gone" => \E t \in Tokens : endings[m][t] > 0
TheDeadRest   == \A m \in Messages : row[m].place = "ready" => row[m].count <= MaxDeliveries

(* One holder settles one delivery, once. *)
SettlementsAreLegal ==
    /\ faults = {}
    /\ \A m \in Messages : Cardinality(HeldBy(m)) <= 1 /\ \A t \in Tokens : endings[m][t] <= 1

(* A receiver that takes a delivery for settled is right, and one that would try again has not settled it. *)
ReportedStatesAreTrue ==
    \A r \in Receivers, m \in Messages :
        /\ context[r][m].state = "COMPLETED" => endings[m][context[r][m].token] > 0
        /\ context[r][m].state = "RECEIVED"  => endings[m][context[r][m].token] = 0
====
