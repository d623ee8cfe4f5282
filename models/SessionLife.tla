---------------------------------- MODULE SessionLife --------------------------------
(* The messages of one session under its lock (ADR 44): the session is accepted, renewed, released and lost while         *)
(* transactions of its holder are open; messages come in order, are settled, deferred, delayed, and delivered again.      *)
(* MessageSessions.tla has the rows by which a session is found.                                                          *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Receivers,
    Messages,         \* numbers, in the order of the session
    MaxTokens,        \* how often the session is accepted
    MaxDeliveries,    \* how often a message is delivered
    MaxBreaks,        \* how often the server crashes, or a connection breaks in a COMMIT
    Broken            \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

VARIABLES
    session,     \* its token, 0 for none, and whether the lock lasts
    drawn,       \* the last token
    holder,      \* of each receiver the token it has, and whether it writes the session's state in its transaction
    row,         \* of each message where it is, the token under which it was handed out, and how often
    delivery,    \* of each message and count: to whom, under which token, and what that receiver knows
    work,        \* of each receiver the settlements in its open transaction: the deliveries, and where they lead to
    ended,       \* the deliveries that were settled
    effects,     \* how often each message took effect
    breaks,
    faults       \* what must never have happened

vars == <<session, drawn, holder, row, delivery, work, ended, effects, breaks, faults>>

Nobody     == "nobody"
Deliveries == Messages \X (1 .. MaxDeliveries)
Places     == {"gone", "ready", "delayed", "deferred"}     \* complete, abandon, abandon with a delay, defer
None       == [by |-> Nobody, token |-> 0, state |-> "none"]

Init ==
    /\ session = [token |-> 0, lasts |-> FALSE] /\ drawn = 0
    /\ holder = [r \in Receivers |-> [token |-> 0, writes |-> FALSE]]
    /\ row = [m \in Messages |-> [place |-> "ready", token |-> 0, count |-> 0]]
    /\ delivery = [d \in Deliveries |-> None]
    /\ work = [r \in Receivers |-> {}]
    /\ ended = {} /\ effects = [m \in Messages |-> 0] /\ breaks = 0 /\ faults = {}

-----------------------------------------------------------------------------------
Settling(r) == {end.of[1] : end \in work[r]}
IsHeld(m)   == \E r \in Receivers : m \in Settling(r)
Keeps(r)    == work[r] # {} \/ holder[r].writes      \* the session's row, FOR KEY SHARE or FOR NO KEY UPDATE
Knows(r)    == holder[r].token # 0 /\ (holder[r].token = session.token \/ ~Rule("a receive proves the session's lock"))

(* accept_session: a session without a holder, or whose lock has expired; the rows of others' transactions are skipped. *)
Accept(r) ==
    /\ ~session.lasts /\ drawn < MaxTokens /\ ~Keeps(r)
    /\ (\A other \in Receivers : ~Keeps(other)) \/ ~Rule("a transaction keeps the session")
    /\ drawn' = drawn + 1
    /\ session' = [token |-> drawn + 1, lasts |-> TRUE]
    /\ holder' = [holder EXCEPT ![r] = [token |-> drawn + 1, writes |-> FALSE]]
    /\ UNCHANGED <<row, delivery, work, ended, effects, breaks, faults>>

Expire ==
    /\ session.lasts
    /\ session' = [session EXCEPT !.lasts = FALSE]
    /\ UNCHANGED <<drawn, holder, row, delivery, work, ended, effects, breaks, faults>>

Renew(r) ==
    /\ holder[r].token # 0 /\ holder[r].token = session.token /\ ~session.lasts
    /\ session' = [session EXCEPT !.lasts = TRUE]
    /\ UNCHANGED <<drawn, holder, row, delivery, work, ended, effects, breaks, faults>>

(* release_session: also while a transaction of the holder is open that settles, but not one that writes the state. *)
Release(r) ==
    /\ holder[r].token # 0 /\ ~holder[r].writes
    /\ (holder[r].token = session.token \/ ~Rule("a release proves the session's lock"))
    /\ faults' = IF holder[r].token # session.token THEN faults \cup {"another's session was released"} ELSE faults
    /\ session' = [token |-> 0, lasts |-> FALSE]
    /\ UNCHANGED <<drawn, holder, row, delivery, work, ended, effects, breaks>>

-----------------------------------------------------------------------------------
(* receive_from_session: the first message that was not handed out under this token; see _next_in_sessions. *)
New   == {m \in Messages : row[m].place \in {"ready", "delayed"} /\ row[m].token # session.token}
Stops == {m \in New : (row[m].place = "delayed" /\ Rule("a delayed message holds its successors up"))
                      \/ IsHeld(m)}
First == {m \in New : row[m].place = "ready" /\ ~IsHeld(m) /\ \A n \in Stops : m < n}

HandOut(r, m) ==
    /\ row[m].count < MaxDeliveries
    /\ row' = [row EXCEPT ![m].token = holder[r].token, ![m].count = @ + 1]
    /\ delivery' = [delivery EXCEPT ![<<m, row[m].count + 1>>] = [by |-> r, token |-> holder[r].token, state |-> "RECEIVED"]]
    /\ UNCHANGED <<session, drawn, holder, work, ended, effects, breaks>>

Receive(r) ==
    /\ Knows(r)
    /\ \E m \in First :
          /\ \A n \in First : m <= n
          /\ HandOut(r, m)
          /\ faults' = faults \cup (IF \E n \in New : n < m THEN {"a message came before another"} ELSE {})
                              \cup (IF session.token # holder[r].token THEN {"a session was received from that is lost"} ELSE {})

ReceiveDeferred(r, m) ==
    /\ Knows(r) /\ row[m].place = "deferred" /\ row[m].token # holder[r].token /\ ~IsHeld(m)
    /\ HandOut(r, m) /\ UNCHANGED faults

BecomeDue(m) ==
    /\ row[m].place = "delayed" /\ ~IsHeld(m)
    /\ row' = [row EXCEPT ![m].place = "ready"]
    /\ UNCHANGED <<session, drawn, holder, delivery, work, ended, effects, breaks, faults>>

-----------------------------------------------------------------------------------
(* The caller's transaction: settlements, with their effects, and the session's state. *)

(* _lock_proven and _prove_sessions. *)
Proves(d) ==
    /\ row[d[1]].place \in {"ready", "deferred"} /\ row[d[1]].token # 0
    /\ row[d[1]].token = delivery[d].token \/ ~Rule("a settlement proves the message's token")
    /\ row[d[1]].token = session.token \/ ~Rule("a settlement proves the session's token")

Close(r, state) ==
    /\ work' = [work EXCEPT ![r] = {}]
    /\ holder' = [holder EXCEPT ![r].writes = FALSE]
    /\ delivery' = [d \in Deliveries |->
          IF delivery[d].by = r /\ delivery[d].state = "COMPLETING" THEN [delivery[d] EXCEPT !.state = state] ELSE delivery[d]]
    /\ UNCHANGED <<session, drawn>>

(* A refusal aborts the transaction. *)
Refuse(r, d) ==
    /\ work' = [work EXCEPT ![r] = {}]
    /\ holder' = [holder EXCEPT ![r].writes = FALSE]
    /\ delivery' = [each \in Deliveries |->
          IF each = d THEN [delivery[d] EXCEPT !.state = "LOST"]
          ELSE IF delivery[each].by = r /\ delivery[each].state = "COMPLETING" THEN [delivery[each] EXCEPT !.state = "RECEIVED"]
          ELSE delivery[each]]

Settle(r, d, to) ==
    /\ delivery[d].by = r /\ delivery[d].state = "RECEIVED" /\ ~IsHeld(d[1])
    /\ IF Proves(d)
          THEN /\ work' = [work EXCEPT ![r] = @ \cup {[of |-> d, to |-> to]}]
               /\ delivery' = [delivery EXCEPT ![d].state = "COMPLETING"]
               /\ UNCHANGED holder
          ELSE Refuse(r, d)
    /\ UNCHANGED <<session, drawn, row, ended, effects, breaks, faults>>

(* set_session_state; of the state it counts only who writes it. *)
Write(r) ==
    /\ holder[r].token # 0 /\ \A other \in Receivers : ~holder[other].writes
    /\ holder[r].token = session.token \/ ~Rule("a state is written under the session's lock")
    /\ holder' = [holder EXCEPT ![r].writes = TRUE]
    /\ UNCHANGED <<session, drawn, row, delivery, work, ended, effects, breaks, faults>>

EndOf(m, r) == CHOOSE end \in work[r] : end.of[1] = m

Settled(at, to) == [at EXCEPT !.place = IF at.place = "deferred" /\ to \in {"ready", "delayed"} THEN "deferred" ELSE to, !.token = 0]

(* A session that was released has no other holder yet: its transaction is in time. *)
IsInTime(r) == session.token \in {0, holder[r].token}

Apply(r) ==
    /\ row' = [m \in Messages |-> IF m \in Settling(r) THEN Settled(row[m], EndOf(m, r).to) ELSE row[m]]
    /\ ended' = ended \cup {end.of : end \in work[r]}
    /\ effects' = [m \in Messages |-> effects[m] + (IF m \in Settling(r) /\ EndOf(m, r).to = "gone" THEN 1 ELSE 0)]
    /\ faults' = faults \cup (IF \E end \in work[r] : end.of[2] # row[end.of[1]].count THEN {"a settlement is not of the last delivery"} ELSE {})
                        \cup (IF Keeps(r) /\ ~IsInTime(r) THEN {"a transaction of a session that is lost has committed"} ELSE {})

Commit(r) == Keeps(r) /\ Apply(r) /\ Close(r, "COMPLETED") /\ UNCHANGED breaks
Abort(r)  == Keeps(r) /\ Close(r, "RECEIVED") /\ UNCHANGED <<row, ended, effects, breaks, faults>>

(* A COMMIT that breaks, done or not; a crash is one that breaks undone. *)
Break(r, isDone) ==
    /\ work[r] # {} /\ breaks < MaxBreaks
    /\ IF isDone THEN Apply(r) ELSE UNCHANGED <<row, ended, effects, faults>>
    /\ Close(r, "IN DOUBT") /\ breaks' = breaks + 1

(* resolve: a message that is there with our token was not settled, unless the session has delivered it again since: then *)
(* its row is younger than the transaction. Otherwise the transaction's id decides.                                      *)
IsOurs(d) == /\ row[d[1]].token = delivery[d].token
             /\ row[d[1]].count = d[2] \/ ~Rule("a younger row proves nothing")

Resolve(d) ==
    /\ delivery[d].state = "IN DOUBT"
    /\ delivery' = [delivery EXCEPT ![d].state = IF ~IsOurs(d) /\ d \in ended THEN "COMPLETED" ELSE "RECEIVED"]
    /\ UNCHANGED <<session, drawn, holder, row, work, ended, effects, breaks, faults>>

Next ==
    \/ Expire
    \/ \E m \in Messages : BecomeDue(m)
    \/ \E d \in Deliveries : Resolve(d)
    \/ \E r \in Receivers :
          \/ Accept(r) \/ Renew(r) \/ Release(r) \/ Receive(r) \/ \E m \in Messages : ReceiveDeferred(r, m)
          \/ Write(r) \/ Commit(r) \/ Abort(r) \/ Break(r, TRUE) \/ Break(r, FALSE)
          \/ \E d \in Deliveries, to \in Places : Settle(r, d, to)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
NothingTakesEffectTwice == \A m \in Messages : effects[m] <= 1

(* A message is gone only when it was completed, and then it took effect. *)
NothingIsLost == \A m \in Messages : row[m].place = "gone" => effects[m] = 1

(* Order, stale settlements, late writers of the state, and releases of what another holds. *)
TheHolderDecides == faults = {}

(* No session has a holder while a transaction of another is open that decides in it. *)
NoTransactionIsOvertaken == \A r \in Receivers : Keeps(r) => IsInTime(r)

ReportedStatesAreTrue ==
    \A d \in Deliveries :
        /\ delivery[d].state = "COMPLETED" => d \in ended
        /\ delivery[d].state \in {"RECEIVED", "LOST"} => d \notin ended
====
