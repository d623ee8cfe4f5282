----------------------------------- MODULE Forward -----------------------------------
(* Forwarding (ADR 46): a message moves from queue to queue, in the transaction that sends it, in a turn, or when it      *)
(* dies, while queues are changed and dropped, and while receivers have it under lock.                                    *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Queues,         \* 1 .. n
    Receivers,
    MaxTokens,      \* how often the message is delivered
    MaxChanges,     \* how often forwarding is changed, or a queue dropped
    Broken          \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

VARIABLES
    target,     \* of each queue where it forwards its messages, and its dead letters; 0 for nowhere
    isThere,    \* whether the queue exists
    message,    \* the queue, the place, the token, whether its lock lasts, and how often it was delivered
    mover,      \* the transaction that forwards: the queue as it was read, the one it moves to, and its step
    change,     \* a change of forwarding by each administrator: checked, but not committed
    context,    \* of each receiver its delivery: the queue, the token and the state
    work,       \* of each receiver where its open transaction leads the message; "" for no transaction
    effects, changes, faults

vars == <<target, isThere, message, mover, change, context, work, effects, changes, faults>>

Kinds  == {"messages", "dead letters"}
Admins == {1, 2}
Still  == [step |-> "none", from |-> 0, kind |-> "messages", to |-> 0]
NoChange == [queue |-> 0, kind |-> "messages", to |-> 0]

Init ==
    /\ target = [q \in Queues |-> [kind \in Kinds |-> 0]]
    /\ isThere = [q \in Queues |-> TRUE]
    /\ message = [queue |-> 1, place |-> "ready", token |-> 0, lasts |-> FALSE, drawn |-> 0]
    /\ mover = Still
    /\ change = [a \in Admins |-> NoChange]
    /\ context = [r \in Receivers |-> [queue |-> 0, token |-> 0, state |-> "none"]]
    /\ work = [r \in Receivers |-> ""]
    /\ effects = 0 /\ changes = 0 /\ faults = {}

-----------------------------------------------------------------------------------
Targets(q) == {target[q][kind] : kind \in Kinds} \ {0}

RECURSIVE Reached(_)
Reached(queues) ==
    LET further == queues \cup UNION {Targets(q) : q \in queues}
    IN IF further = queues THEN queues ELSE Reached(further)

IsHeld  == mover.step = "holds" \/ \E r \in Receivers : work[r] # ""
IsFree  == message.place = "ready" /\ (~message.lasts \/ ~Rule("a forward leaves what is locked"))

(* The transaction that forwards holds the row of its target: in forwarding_target, with FOR KEY SHARE. *)
IsTarget(q) == mover.step = "holds" /\ mover.to = q /\ Rule("a forward holds its target")

(* _set_forwarding: the next one to change it waits, and then checks the rest. *)
Check(a, q, kind, to) ==
    /\ changes < MaxChanges /\ change[a].queue = 0 /\ isThere[q] /\ (IF to = 0 THEN target[q][kind] # 0 ELSE isThere[to])
    /\ (\A other \in Admins : change[other].queue = 0) \/ ~Rule("forwarding is changed by one after the other")
    /\ IF to # 0 /\ Rule("forwarding leads nowhere back") THEN q \notin Reached({to}) ELSE TRUE
    /\ changes' = changes + 1
    /\ change' = [change EXCEPT ![a] = [queue |-> q, kind |-> kind, to |-> to]]
    /\ UNCHANGED <<target, isThere, message, mover, context, work, effects, faults>>

(* It holds the new target FOR KEY SHARE, so that it is there still. *)
Change(a) ==
    /\ change[a].queue # 0
    /\ target' = IF isThere[change[a].queue] THEN [target EXCEPT ![change[a].queue][change[a].kind] = change[a].to] ELSE target
    /\ change' = [change EXCEPT ![a] = NoChange]
    /\ UNCHANGED <<isThere, message, mover, context, work, effects, changes, faults>>

IsChosen(q) == \E a \in Admins : change[a].queue # 0 /\ change[a].to = q /\ Rule("a change holds its target")

(* drop_queue deletes the messages too; it waits for transactions that hold them. *)
Drop(q) ==
    /\ isThere[q] /\ changes < MaxChanges /\ ~IsTarget(q) /\ ~IsChosen(q)
    /\ (\A source \in Queues : isThere[source] => q \notin Targets(source)) \/ ~Rule("a target of others is not dropped")
    /\ ~(message.queue = q /\ IsHeld)
    /\ isThere' = [isThere EXCEPT ![q] = FALSE]
    /\ message' = IF message.queue = q /\ message.place # "gone" THEN [message EXCEPT !.place = "dropped"] ELSE message
    /\ changes' = changes + 1
    /\ UNCHANGED <<target, mover, change, context, work, effects, faults>>

-----------------------------------------------------------------------------------
(* _forward_waiting and _forward: the settings of the queue may have changed since they were read. *)

Look(kind) ==
    LET q == message.queue
    IN /\ mover.step = "none" /\ target[q][kind] # 0 /\ isThere[q]
       /\ mover' = [step |-> "has looked", from |-> q, kind |-> kind, to |-> target[q][kind]]
       /\ UNCHANGED <<target, isThere, message, change, context, work, effects, changes, faults>>

(* A message that dies is forwarded as a dead letter: by a sweep here, which it is due for once its lock has expired. *)
Hold ==
    /\ mover.step = "has looked"
    /\ IF message.queue # mover.from \/ ~IsFree \/ ~isThere[mover.from]
          THEN mover' = Still
          ELSE /\ IsHeld => ~Rule("a forward skips what a transaction holds")
               /\ mover' = IF isThere[mover.to] \/ ~Rule("a forward looks whether its target is there")
                              THEN [mover EXCEPT !.step = "holds"] ELSE Still
    /\ UNCHANGED <<target, isThere, message, change, context, work, effects, changes, faults>>

Move ==
    /\ mover.step = "holds"
    /\ faults' = faults \cup (IF message.lasts THEN {"a lock was taken that lasts"} ELSE {})
                        \cup (IF message.place # "ready" THEN {"a message was moved that had left"} ELSE {})
    /\ message' = [message EXCEPT !.queue = mover.to, !.token = 0, !.lasts = FALSE, !.place = "ready"]
    /\ mover' = Still
    /\ UNCHANGED <<target, isThere, change, context, work, effects, changes>>

Undo ==
    /\ mover.step = "holds"
    /\ mover' = Still
    /\ UNCHANGED <<target, isThere, message, change, context, work, effects, changes, faults>>

-----------------------------------------------------------------------------------
(* receive, and the caller's transaction. *)

Receive(r) ==
    /\ message.place = "ready" /\ ~message.lasts /\ ~IsHeld /\ message.drawn < MaxTokens
    /\ isThere[message.queue] /\ context[r].state # "RECEIVED" /\ work[r] = ""
    /\ message' = [message EXCEPT !.token = message.drawn + 1, !.drawn = @ + 1, !.lasts = TRUE]
    /\ context' = [context EXCEPT ![r] = [queue |-> message.queue, token |-> message.drawn + 1, state |-> "RECEIVED"]]
    /\ UNCHANGED <<target, isThere, mover, change, work, effects, changes, faults>>

Expire ==
    /\ message.lasts /\ message' = [message EXCEPT !.lasts = FALSE]
    /\ UNCHANGED <<target, isThere, mover, change, context, work, effects, changes, faults>>

Proves(r) == /\ message.place = "ready" /\ isThere[message.queue]
             /\ \/ message.token = context[r].token /\ message.queue = context[r].queue
                \/ ~Rule("a settlement proves the queue and the token")

Settle(r, to) ==
    /\ context[r].state = "RECEIVED" /\ work[r] = ""
    /\ IF Proves(r) THEN ~IsHeld /\ work' = [work EXCEPT ![r] = to] /\ UNCHANGED context
       ELSE context' = [context EXCEPT ![r].state = "LOST"] /\ UNCHANGED work
    /\ UNCHANGED <<target, isThere, message, mover, change, effects, changes, faults>>

Commit(r) ==
    /\ work[r] # ""
    /\ message' = [message EXCEPT !.place = work[r], !.token = 0, !.lasts = FALSE]
    /\ effects' = effects + (IF work[r] = "gone" THEN 1 ELSE 0)
    /\ faults' = faults \cup (IF <<message.queue, message.token>> # <<context[r].queue, context[r].token>>
                                 THEN {"a message was settled in another queue, or with an older lock"} ELSE {})
                        \cup (IF message.place # "ready" THEN {"a message was settled that had left"} ELSE {})
    /\ context' = [context EXCEPT ![r].state = "SETTLED"] /\ work' = [work EXCEPT ![r] = ""]
    /\ UNCHANGED <<target, isThere, mover, change, changes>>

Abort(r) ==
    /\ work[r] # "" /\ work' = [work EXCEPT ![r] = ""]
    /\ UNCHANGED <<target, isThere, message, mover, change, context, effects, changes, faults>>

Next ==
    \/ \E a \in Admins : Change(a) \/ \E q \in Queues, kind \in Kinds, to \in Queues \cup {0} : Check(a, q, kind, to)
    \/ \E q \in Queues : Drop(q)
    \/ \E kind \in Kinds : Look(kind)
    \/ Hold \/ Move \/ Undo \/ Expire
    \/ \E r \in Receivers : Receive(r) \/ Commit(r) \/ Abort(r) \/ \E to \in {"gone", "ready"} : Settle(r, to)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
NothingTakesEffectTwice == effects <= 1

(* A message is in a queue that is there, unless it was dropped with its queue, or is gone, and then it took effect. *)
NothingIsLost == /\ message.place = "ready" => isThere[message.queue]
                 /\ message.place = "gone" => effects = 1

(* Forwarding leads to a queue that is there, and never back: what is sent arrives. *)
EverythingArrives ==
    \A q \in Queues : isThere[q] => q \notin Reached(Targets(q)) /\ \A to \in Targets(q) : isThere[to]

SettlementsAreLegal == faults = {}
====
