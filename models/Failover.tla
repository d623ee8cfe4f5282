----------------------------------- MODULE Failover ----------------------------------
(* The life of a message, and of the work on it, across crashes and promotions of a standby that replays late: what the   *)
(* new primary has is true from then on. Receivers outlive it with their tokens and their ids; InDoubt.tla has the        *)
(* answers alone, for sends too.                                                                                          *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Receivers,
    MaxXid,        \* how many ids are given out
    MaxTokens,     \* how often the message is delivered
    MaxRuns,       \* how many crashes and promotions there are
    Broken         \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

VARIABLES
    primary,     \* a server: the next id, what was committed under each, the message, its lock, and the effects of work on it
    standby,     \* what the standby has replayed
    run,         \* the timeline, and how many crashes there were on it
    drawn,       \* the tokens that were drawn in all: they are random
    context,     \* of each receiver its delivery: the token, the state, the id of its transaction, and the run of that
    open,        \* of each receiver its open transaction: "none", "heard", or "unheard" once the connection is lost
    expired,     \* the tokens whose locks have expired
    wrong        \* the tokens whose settlements were answered to be committed, and were not

vars == <<primary, standby, run, drawn, context, open, expired, wrong>>

Xids == 1 .. MaxXid
NoRun == [timeline |-> 0, crashes |-> 0]
Empty == [next |-> 1, by |-> [xid \in Xids |-> 0], place |-> "ready", token |-> 0, count |-> 0, effects |-> 0, settled |-> {}]

Init ==
    /\ primary = Empty /\ standby = Empty
    /\ run = [timeline |-> 1, crashes |-> 0] /\ drawn = 0
    /\ context = [r \in Receivers |-> [token |-> 0, state |-> "none", xid |-> 0, run |-> NoRun]]
    /\ open = [r \in Receivers |-> "none"]
    /\ expired = {} /\ wrong = {}

IsOpen(r) == open[r] # "none"

Lasts  == primary.token # 0 /\ primary.token \notin expired
IsHeld == \E r \in Receivers : IsOpen(r) /\ context[r].token = primary.token

-----------------------------------------------------------------------------------
(* A token that is counted in the database is drawn again when that has forgotten it. *)
Receive(r) ==
    LET token == IF Rule("a token is random") THEN drawn + 1 ELSE primary.count + 1
    IN /\ primary.place = "ready" /\ ~Lasts /\ ~IsHeld /\ drawn < MaxTokens /\ ~IsOpen(r)
       /\ context[r].state \notin {"RECEIVED", "IN DOUBT"}
       /\ primary' = [primary EXCEPT !.token = token, !.count = @ + 1]
       /\ drawn' = drawn + 1
       /\ context' = [context EXCEPT ![r] = [token |-> token, state |-> "RECEIVED", xid |-> 0, run |-> NoRun]]
       /\ UNCHANGED <<standby, run, open, expired, wrong>>

Expire(token) ==
    /\ token <= drawn /\ token \notin expired
    /\ expired' = expired \cup {token}
    /\ UNCHANGED <<primary, standby, run, drawn, context, open, wrong>>

(* pin: the transaction gets its id with the run of the server. *)
Begin(r) ==
    /\ context[r].state = "RECEIVED" /\ ~IsOpen(r) /\ ~IsHeld
    /\ IF primary.place = "ready" /\ primary.token = context[r].token
          THEN /\ primary.next <= MaxXid
               /\ primary' = [primary EXCEPT !.next = @ + 1]
               /\ open' = [open EXCEPT ![r] = "heard"]
               /\ context' = [context EXCEPT ![r].xid = primary.next, ![r].run = run]
          ELSE /\ context' = [context EXCEPT ![r].state = "LOST"] /\ UNCHANGED <<primary, open>>
    /\ UNCHANGED <<standby, run, drawn, expired, wrong>>

(* The work and the settlement are committed, and the answer arrives, or it does not. *)
Commit(r, isHeard) ==
    /\ IsOpen(r) /\ (isHeard => open[r] = "heard")
    /\ primary' = [primary EXCEPT !.by[context[r].xid] = context[r].token, !.place = "gone", !.token = 0,
                                  !.effects = @ + 1, !.settled = @ \cup {context[r].token}]
    /\ context' = [context EXCEPT ![r].state = IF isHeard THEN "COMPLETED" ELSE IF open[r] = "heard" THEN "IN DOUBT" ELSE @]
    /\ open' = [open EXCEPT ![r] = "none"]
    /\ UNCHANGED <<standby, run, drawn, expired, wrong>>

(* The connection breaks: at once, or while the server goes on with the transaction for a while. *)
Break(r) ==
    /\ open[r] = "heard"
    /\ context' = [context EXCEPT ![r].state = "IN DOUBT"] /\ open' = [open EXCEPT ![r] = "unheard"]
    /\ UNCHANGED <<primary, standby, run, drawn, expired, wrong>>

Abort(r) ==
    /\ open[r] = "unheard" /\ open' = [open EXCEPT ![r] = "none"]
    /\ UNCHANGED <<primary, standby, run, drawn, context, expired, wrong>>

(* Other transactions, which take ids. *)
CommitOthers ==
    /\ primary.next <= MaxXid
    /\ primary' = [primary EXCEPT !.next = @ + 1, !.by[primary.next] = -1]
    /\ UNCHANGED <<standby, run, drawn, context, open, expired, wrong>>

-----------------------------------------------------------------------------------
Replay == standby' = primary /\ UNCHANGED <<primary, run, drawn, context, open, expired, wrong>>

(* Transactions are over; receivers whose COMMIT was not answered are in doubt. A crash forgets ids under which nothing   *)
(* was written to disk.                                                                                                   *)
Recover(from, next) ==
    /\ run.timeline + run.crashes <= MaxRuns
    /\ primary' = from /\ run' = next
    /\ context' = [r \in Receivers |-> IF open[r] = "heard" THEN [context[r] EXCEPT !.state = "IN DOUBT"] ELSE context[r]]
    /\ open' = [r \in Receivers |-> "none"]
    /\ UNCHANGED <<standby, drawn, expired, wrong>>

Written == CHOOSE n \in 1 .. MaxXid + 1 :
    /\ \A xid \in Xids : primary.by[xid] # 0 => xid < n
    /\ n = 1 \/ primary.by[n - 1] # 0

Crash   == Recover([primary EXCEPT !.next = Written], [run EXCEPT !.crashes = @ + 1])
Promote == Recover(standby, [timeline |-> run.timeline + 1, crashes |-> run.crashes])

-----------------------------------------------------------------------------------
(* resolve, with the id. *)

IsSameRun(r) == /\ run.timeline = context[r].run.timeline \/ ~Rule("an id names its timeline")
                /\ run.crashes = context[r].run.crashes \/ ~Rule("an id names its run on the timeline")

WasEndedByUs(server, r) ==
    /\ context[r].token \notin expired /\ server.place = "gone"
    /\ run.timeline = context[r].run.timeline \/ ~Rule("a failover may have forgotten the lock")

Answer(server, r) ==
    LET xid == context[r].xid
        isOurs == server.place = "ready" /\ server.token = context[r].token
    IN IF xid >= server.next THEN "aborted"
       ELSE IF IsSameRun(r) /\ IsOpen(r) /\ Rule("an open transaction is in progress") THEN "in progress"
       ELSE IF server.by[xid] = 0 THEN "aborted"
       ELSE IF isOurs THEN "aborted"
       ELSE IF IsSameRun(r) \/ WasEndedByUs(server, r) THEN "committed"
       ELSE "unknown"

Ask(server, r, isStandby) ==
    /\ context[r].state = "IN DOUBT"
    /\ isStandby => ~Rule("a standby knows no outcome")
    /\ Answer(server, r) # "in progress"
    /\ context' = [context EXCEPT ![r].state = CASE Answer(server, r) = "committed" -> "COMPLETED"
                                                 [] Answer(server, r) = "aborted"   -> "RECEIVED"
                                                 [] OTHER                           -> "FAULTED"]
    /\ wrong' = IF Answer(server, r) = "committed" /\ context[r].token \notin primary.settled THEN wrong \cup {context[r].token}
                  ELSE wrong
    /\ UNCHANGED <<primary, standby, run, drawn, open, expired>>

Next ==
    \/ CommitOthers \/ Replay \/ Crash \/ Promote
    \/ \E token \in 1 .. MaxTokens : Expire(token)
    \/ \E r \in Receivers :
          \/ Receive(r) \/ Begin(r) \/ Break(r) \/ Abort(r) \/ Ask(primary, r, FALSE) \/ Ask(standby, r, TRUE)
          \/ Commit(r, TRUE) \/ Commit(r, FALSE)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
(* In the history that has survived, work takes effect once, and with it the message is gone. *)
NothingTakesEffectTwice == primary.effects <= 1 /\ (primary.effects = 1) = (primary.place = "gone")

(* An answer was true in the history that was there when it was given. *)
AnswersAreTrue == wrong = {}

(* Who would try again has not settled: it would do its work in vain, or of another's. *)
NothingIsDoneAgain == \A r \in Receivers : context[r].state = "RECEIVED" => context[r].token \notin primary.settled

(* A lock has one holder, whatever was forgotten. *)
OneHolds == \A r, other \in Receivers :
    /\ context[r].state = "RECEIVED" /\ context[other].state = "RECEIVED"
    /\ primary.place = "ready" /\ context[r].token = primary.token /\ context[other].token = primary.token
    => r = other
====
