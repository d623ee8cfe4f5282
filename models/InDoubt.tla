---------------------------------- MODULE InDoubt ---------------------------------
(* A COMMIT in doubt across crashes and failovers (ADR 27): what pgqueue.resolve and pgqueue/statements/sending.py answer *)
(* when the connection broke during COMMIT. After "aborted" the work is done again; after "committed" it is over.         *)
EXTENDS Integers

CONSTANTS
    MaxXid,       \* how many ids are given out
    MaxRuns,      \* how many crashes and promotions there are
    Settles,      \* whether our transaction settles a message under lock; otherwise it sends one
    Broken        \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

VARIABLES
    primary,      \* a server: the next id, who has committed under each id, and where our message is
    disk,         \* what the primary has after a crash
    standby,      \* what the standby has replayed
    run,          \* the timeline, and how many crashes there were on it
    ours,         \* our transaction: its id, the run in which it got that, and whether it is open
    isLost,       \* whether the connection is lost
    lasts,        \* whether our lock has not expired
    answer,       \* what the database said: "" for not yet known
    truth         \* whether our transaction was committed when it was said

vars == <<primary, disk, standby, run, ours, isLost, lasts, answer, truth>>

Nobody == 0
We     == 1
Others == 2

(* The message is "free", locked by "us" or by "others", or "gone". *)
Empty == [next |-> 1, by |-> [xid \in 1 .. MaxXid |-> Nobody], message |-> "free"]

Init ==
    /\ primary = Empty /\ disk = Empty /\ standby = Empty
    /\ run = [timeline |-> 1, crashes |-> 0]
    /\ ours = [xid |-> 0, run |-> run, isOpen |-> FALSE]
    /\ isLost = FALSE /\ lasts = TRUE /\ answer = "" /\ truth = FALSE

-----------------------------------------------------------------------------------
(* The primary. A COMMIT is on its disk before anybody sees it; an id, or the work under it, may not be. *)

Write(server) == primary' = server /\ disk' = server

Receive == /\ primary.message = "free" /\ ours.xid = 0
           /\ Write([primary EXCEPT !.message = "us"])
           /\ UNCHANGED <<standby, run, ours, isLost, lasts, answer, truth>>

Begin == /\ ours.xid = 0 /\ primary.next <= MaxXid /\ (Settles => primary.message = "us")
         /\ primary' = [primary EXCEPT !.next = @ + 1]
         /\ ours' = [xid |-> primary.next, run |-> run, isOpen |-> TRUE]
         /\ UNCHANGED <<disk, standby, run, isLost, lasts, answer, truth>>

Break == /\ ours.isOpen
         /\ isLost' = TRUE
         /\ UNCHANGED <<primary, disk, standby, run, ours, lasts, answer, truth>>

(* Sent before the connection broke, but perhaps under way for long. *)
Commit == /\ ours.isOpen
          /\ Write([primary EXCEPT !.by[ours.xid] = We, !.message = IF Settles THEN "gone" ELSE @])
          /\ ours' = [ours EXCEPT !.isOpen = FALSE]
          /\ isLost' = TRUE
          /\ UNCHANGED <<standby, run, lasts, answer, truth>>

Rollback == /\ ours.isOpen
            /\ ours' = [ours EXCEPT !.isOpen = FALSE]
            /\ isLost' = TRUE
            /\ UNCHANGED <<primary, disk, standby, run, lasts, answer, truth>>

Expire == /\ lasts' = FALSE
          /\ UNCHANGED <<primary, disk, standby, run, ours, isLost, answer, truth>>

(* Others commit: anything, or what they do with our message. A transaction that is open holds the message's row. The   *)
(* rule about their locks is kept by receivers, but not by cancel, unlock, purge_queue and release_session.              *)
IsFree == \/ primary.message = "free"
          \/ primary.message = "us" /\ ~ours.isOpen /\ (~lasts \/ ~Rule("others leave a lock that lasts"))

CommitOthers ==
    /\ primary.next <= MaxXid
    /\ \E message \in {primary.message} \cup (IF IsFree THEN {"others"} ELSE {})
                      \cup (IF primary.message = "others" THEN {"gone"} ELSE {}) :
          Write([primary EXCEPT !.next = @ + 1, !.by[primary.next] = Others, !.message = message])
    /\ UNCHANGED <<standby, run, ours, isLost, lasts, answer, truth>>

-----------------------------------------------------------------------------------
(* The servers. A standby is sent what is on the primary's disk, and replays it at any time later. *)

Replay == /\ standby' = disk
          /\ UNCHANGED <<primary, disk, run, ours, isLost, lasts, answer, truth>>

Recover(from, next) ==
    /\ run.timeline + run.crashes <= MaxRuns
    /\ primary' = from /\ disk' = from /\ run' = next
    /\ isLost' = (isLost \/ ours.isOpen)
    /\ ours' = [ours EXCEPT !.isOpen = FALSE]
    /\ UNCHANGED <<standby, lasts, answer, truth>>

Crash   == Recover(disk, [run EXCEPT !.crashes = @ + 1])
Promote == Recover(standby, [run EXCEPT !.timeline = @ + 1])

-----------------------------------------------------------------------------------
(* The question. *)

IsSameTimeline == run.timeline = ours.run.timeline \/ ~Rule("an id names its timeline")
IsSameRun      == IsSameTimeline /\ (run.crashes = ours.run.crashes \/ ~Rule("an id names its run on the timeline"))

(* Only its holder ends a lock that lasts; but the lock itself may be forgotten. *)
WasEndedByUs(server) ==
    Settles /\ lasts /\ server.message = "gone"
    /\ (run.timeline = ours.run.timeline \/ ~Rule("a failover may have forgotten the lock"))

Answer(server) ==
    IF ours.xid >= server.next THEN "aborted"                    \* the id is in the future
    ELSE IF ours.isOpen /\ Rule("an open transaction is in progress") THEN ""
    ELSE IF server.by[ours.xid] = Nobody THEN "aborted"
    ELSE IF Settles /\ server.message = "us" THEN "aborted"
    ELSE IF IsSameRun \/ WasEndedByUs(server) THEN "committed"
    ELSE "unknown"

Ask(server, isStandby) ==
    /\ isLost /\ answer = ""
    /\ answer' = IF isStandby /\ Rule("a standby knows no outcome") THEN "" ELSE Answer(server)
    /\ truth' = (primary.by[ours.xid] = We)
    /\ UNCHANGED <<primary, disk, standby, run, ours, isLost, lasts>>

Next ==
    \/ Receive \/ Begin \/ Break \/ Commit \/ Rollback \/ Expire \/ CommitOthers
    \/ Replay \/ Crash \/ Promote
    \/ Ask(primary, FALSE) \/ Ask(standby, TRUE)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
(* Of work that is done again, nothing was or will be committed. *)
NothingIsDoneTwice == answer = "aborted" => primary.by[ours.xid] # We

(* Of work that counts as done, all was committed. *)
NothingIsLost == answer = "committed" => truth

(* An outcome is unknown only if the run has changed. *)
MostIsKnown == answer = "unknown" => run # ours.run
====
