----------------------------------- MODULE Handler -----------------------------------
(* Work on a message in a transaction that the library has begun (pgqueue/flows/processing.py), or in one of its own:     *)
(* what the work may do to the transaction, in SQL text and in silence, before it returns: settle, in a savepoint too,    *)
(* roll back to it, hide a statement that has failed, commit, roll back, begin another transaction, leave that open.      *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Begins,       \* whether the library begins the transaction, and pins the message in it
    MaxTx,        \* how many transactions there are on the connection
    Broken        \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

VARIABLES
    row,          \* who has the message under lock, or has settled it
    isHeld,       \* whether our transaction holds the row
    tx,           \* the open transaction: its number; whether it has failed; the savepoint; what was done before and in that
    status,       \* of each id what became of it: that of transaction n is <<n, 0>>, that of its savepoint <<n, 1>>
    context,      \* the delivery: its state, the id of its settlement, and whether one was undone
    pinnedIn,     \* the transaction that the library has begun; 0 for none
    step,         \* "works", "returned", "succeeded", "failed"
    effects,      \* how often the work on the message was committed
    faults        \* what must never have happened

vars == <<row, isHeld, tx, status, context, pinnedIn, step, effects, faults>>

Ids      == (1 .. MaxTx) \X {0, 1}
Nothing  == [acts |-> FALSE, settles |-> FALSE]
None     == <<0, 0>>
NoTx     == [n |-> 0, failed |-> FALSE, level |-> 0, done |-> [level \in {0, 1} |-> Nothing], used |-> FALSE]
Opened(n) == [NoTx EXCEPT !.n = n]

Init ==
    /\ row = "ours" /\ isHeld = Begins
    /\ tx = IF Begins THEN Opened(1) ELSE NoTx
    /\ status = [id \in Ids |-> IF Begins /\ id = <<1, 0>> THEN "in progress" ELSE "none"]
    /\ context = [state |-> "RECEIVED", id |-> None, wasUndone |-> FALSE]
    /\ pinnedIn = IF Begins THEN 1 ELSE 0
    /\ step = "works" /\ effects = 0 /\ faults = {}

IsOpen   == tx.n # 0
Number   == Cardinality({n \in 1 .. MaxTx : status[<<n, 0>>] # "none"})
Settles  == tx.done[0].settles \/ tx.done[1].settles
Acts     == tx.done[0].acts \/ tx.done[1].acts
Here     == <<tx.n, IF Rule("a savepoint has an id of its own") THEN tx.level ELSE 0>>

-----------------------------------------------------------------------------------
(* The others: the lock expires, another receives the message, and completes it with its own work on it. *)

Take == /\ row = "ours" /\ ~isHeld /\ row' = "theirs"
        /\ UNCHANGED <<isHeld, tx, status, context, pinnedIn, step, effects, faults>>

CompleteTheirs == /\ row = "theirs" /\ row' = "completed by them"
                  /\ UNCHANGED <<isHeld, tx, status, context, pinnedIn, step, effects, faults>>

(* pgqueue.resolve, asked on the connection of the transaction while that is open: the message is seen as it is there. *)
IsOurs  == row = "ours" /\ ~Settles
Answer  == IF status[context.id] = "aborted" THEN "aborted"
           ELSE IF IsOurs THEN "aborted"
           ELSE IF status[context.id] = "in progress" THEN "in progress" ELSE "committed"

Known == IF context.state # "COMPLETING" \/ ~Rule("the database is asked about a settlement by the work") THEN context
         ELSE CASE Answer = "committed" -> [context EXCEPT !.state = "COMPLETED"]
                [] Answer = "aborted"   -> [context EXCEPT !.state = "RECEIVED", !.id = None, !.wasUndone = TRUE]
                [] OTHER                -> context

-----------------------------------------------------------------------------------
(* What the work does. Statements fail in a transaction that has failed. *)

Works == step = "works"

Begin == /\ Works /\ ~IsOpen /\ Number < MaxTx
         /\ tx' = Opened(Number + 1) /\ status' = [status EXCEPT ![<<Number + 1, 0>>] = "in progress"]
         /\ UNCHANGED <<row, isHeld, context, pinnedIn, step, effects, faults>>

Act == /\ Works /\ IsOpen /\ ~tx.failed
       /\ tx' = [tx EXCEPT !.done[tx.level].acts = TRUE]
       /\ UNCHANGED <<row, isHeld, status, context, pinnedIn, step, effects, faults>>

Savepoint == /\ Works /\ IsOpen /\ ~tx.failed /\ tx.level = 0 /\ ~tx.used
             /\ tx' = [tx EXCEPT !.level = 1, !.used = TRUE]
             /\ status' = [status EXCEPT ![<<tx.n, 1>>] = "in progress"]
             /\ UNCHANGED <<row, isHeld, context, pinnedIn, step, effects, faults>>

Release == /\ Works /\ IsOpen /\ ~tx.failed /\ tx.level = 1
           /\ tx' = [tx EXCEPT !.level = 0]
           /\ UNCHANGED <<row, isHeld, status, context, pinnedIn, step, effects, faults>>

RollBackTo == /\ Works /\ IsOpen /\ tx.level = 1
              /\ tx' = [tx EXCEPT !.level = 0, !.failed = FALSE, !.done[1] = Nothing]
              /\ status' = [status EXCEPT ![<<tx.n, 1>>] = "aborted"]
              /\ isHeld' = (isHeld /\ (pinnedIn = tx.n \/ tx.done[0].settles))
              /\ faults' = IF tx.done[1].acts /\ tx.done[1].settles THEN faults \cup {"undone"} ELSE faults
              /\ UNCHANGED <<row, context, pinnedIn, step, effects>>

Fail == /\ Works /\ IsOpen /\ tx' = [tx EXCEPT !.failed = TRUE]
        /\ UNCHANGED <<row, isHeld, status, context, pinnedIn, step, effects, faults>>

(* complete(transaction=...), in the transaction that pins the message, if one does. *)
IsRightTx == pinnedIn \in {0, tx.n} \/ ~Rule("a pinned message is settled in its transaction")

Settle == /\ Works /\ IsOpen /\ ~tx.failed /\ Known.state = "RECEIVED"
          /\ IF IsRightTx /\ row = "ours" /\ ~Settles
                THEN /\ tx' = [tx EXCEPT !.done[tx.level].settles = TRUE] /\ isHeld' = TRUE
                     /\ context' = [Known EXCEPT !.state = "COMPLETING", !.id = Here]
                ELSE /\ tx' = [tx EXCEPT !.failed = TRUE] /\ UNCHANGED <<isHeld, context>>
          /\ faults' = faults \ {"undone"}                         \* if the work settles anew, it knows
          /\ UNCHANGED <<row, status, pinnedIn, step, effects>>

(* What COMMIT and ROLLBACK do to the database. A transaction that has failed is rolled back by its COMMIT. *)
IsDone == ~tx.failed

Ended(done) ==
    /\ status' = [id \in Ids |-> IF status[id] = "in progress" /\ id[1] = tx.n
                                    THEN IF done THEN "committed" ELSE "aborted" ELSE status[id]]
    /\ row' = IF done /\ Settles THEN "completed" ELSE row
    /\ effects' = effects + (IF done /\ Acts THEN 1 ELSE 0)
    /\ isHeld' = FALSE /\ tx' = NoTx

(* By the work itself: if it commits its acts without the settlement, that is its own decision. *)
EndByItself(done) ==
    /\ Works /\ IsOpen /\ Ended(done /\ IsDone)
    /\ faults' = faults \cup (IF done /\ IsDone /\ Acts /\ ~Settles THEN {"excused"} ELSE {})
                        \cup (IF ~(done /\ IsDone) /\ Acts /\ (pinnedIn = tx.n \/ Settles) THEN {"undone"} ELSE {})
    /\ UNCHANGED <<context, pinnedIn, step>>

-----------------------------------------------------------------------------------
(* The library, after the work has returned. *)

Return == /\ Works /\ step' = "returned"
          /\ UNCHANGED <<row, isHeld, tx, status, context, pinnedIn, effects, faults>>

IsRefused == Known.state = "RECEIVED" /\ Known.wasUndone /\ Rule("an undone settlement is refused")

GiveUp == /\ step' = "failed" /\ (IF IsOpen THEN Ended(FALSE) ELSE UNCHANGED <<status, row, effects, isHeld, tx>>)
          /\ context' = [context EXCEPT !.state = IF context.state = "COMPLETED" THEN @ ELSE "RECEIVED"]

(* process with transaction=True: the message is completed there and committed, unless the work has settled it. *)
Leave ==
    /\ Begins /\ step = "returned"
    /\ \/ /\ tx.failed /\ context.state = "COMPLETING" /\ Rule("the database is asked about a settlement by the work")
          /\ GiveUp                                        \* the question fails
       \/ /\ ~(tx.failed /\ context.state = "COMPLETING" /\ Rule("the database is asked about a settlement by the work"))
          /\ IF Known.state = "RECEIVED"
                THEN IF IsRefused \/ ~IsRightTx \/ row # "ours" \/ tx.failed
                        THEN GiveUp
                        ELSE /\ row' = "completed" /\ effects' = effects + (IF Acts THEN 1 ELSE 0)
                             /\ status' = [id \in Ids |-> IF status[id] = "in progress" THEN "committed" ELSE status[id]]
                             /\ isHeld' = FALSE /\ tx' = NoTx
                             /\ context' = [Known EXCEPT !.state = "COMPLETED"] /\ step' = "succeeded"
                ELSE /\ IF IsOpen THEN Ended(IsDone) ELSE UNCHANGED <<row, isHeld, tx, status, effects>>
                     /\ context' = [Known EXCEPT !.state = "COMPLETED"] /\ step' = "succeeded"
    /\ faults' = faults \cup (IF IsOpen /\ tx.n # pinnedIn /\ Acts THEN {"excused"} ELSE {})
    /\ pinnedIn' = 0

(* process without a transaction: the message is completed in one of the library's own, unless the work has settled it.  *)
IsLeftOpen == Known.state = "COMPLETING" /\ IsOpen

Complete ==
    /\ ~Begins /\ step = "returned"
    /\ IF (IsLeftOpen /\ Rule("a settlement that is left open is refused")) \/ IsRefused
          THEN GiveUp
          ELSE IF Known.state = "RECEIVED"
          THEN IF row # "ours" \/ isHeld THEN GiveUp
               ELSE /\ row' = "completed" /\ context' = [Known EXCEPT !.state = "COMPLETED"] /\ step' = "succeeded"
                    /\ UNCHANGED <<isHeld, tx, status, effects>>
          ELSE /\ context' = Known /\ step' = "succeeded" /\ UNCHANGED <<row, isHeld, tx, status, effects>>
    /\ UNCHANGED <<faults, pinnedIn>>

Next ==
    \/ Take \/ CompleteTheirs
    \/ Begin \/ Act \/ Savepoint \/ Release \/ RollBackTo \/ Fail \/ Settle \/ EndByItself(TRUE) \/ EndByItself(FALSE)
    \/ Return \/ Leave \/ Complete

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
(* Work is committed once, with its settlement, unless it has committed itself without one. *)
NothingTakesEffectTwice ==
    "excused" \in faults \/ (effects > 0 => row \in {"completed"} /\ effects = 1)

(* Of a message that was completed with success, no work was undone by the end of a transaction. *)
NothingIsLost == step = "succeeded" /\ row = "completed" => ~("undone" \in faults) \/ effects > 0

(* A settlement that is reported was committed. *)
ReportedStatesAreTrue == step = "succeeded" => row = "completed"
====
