---------------------------------- MODULE Session ---------------------------------
(* A session's own cursors, as pgqueue._move_scan moves them: they pass nothing that nobody has held yet. Cursor.tla      *)
(* shows that nothing is lost wherever they stand; but what they had passed would come late, and out of order.             *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Senders,      \* how many transactions send
    MaxNumber,    \* how many sequence numbers are drawn
    Broken        \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

VARIABLES
    last,         \* the last number that was handed out
    begun,        \* how many senders have an id
    open,         \* those of them that are open
    messages,     \* what was sent and is not gone
    session       \* what the session remembers, and does

vars == <<last, begun, open, messages, session>>

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

Lanes == 1 .. 2   \* in the order in which they are scanned

(* Ids are handed out in order. So who has one that is smaller than another had it when that was handed out; and where    *)
(* the engine remembers an id as a bound, to ask later whether all smaller ones are over, here stand the senders that      *)
(* were open when it was handed out.                                                                                       *)

(* Two settings of the session, which a rollback undoes: its cursors, and what it knows to be settled. All up to `settled` *)
(* is visible; so will be all up to `number`, when the senders in `bound` are over. `last` is what the sequence stood at   *)
(* when the transaction before this one looked.                                                                            *)
Memory == [cursor : [Lanes -> 0 .. MaxNumber], settled : 0 .. MaxNumber, number : 0 .. MaxNumber,
           bound : SUBSET (1 .. Senders), last : 0 .. MaxNumber]

Nothing == [cursor |-> [lane \in Lanes |-> 0], settled |-> 0, number |-> 0, bound |-> {}, last |-> 0]

Nobody  == 0      \* who holds a row, unless it is a sender
Session == -1

Init ==
    /\ last = 0 /\ begun = 0 /\ open = {} /\ messages = {}
    /\ session = [memory |-> Nothing,     \* as its transaction has it
                  before |-> Nothing,     \* as a rollback would bring it back
                  isOpen |-> FALSE,       \* whether it is in a transaction that has an id
                  bound  |-> {},          \* the senders below that id
                  looked |-> FALSE,       \* whether it has looked at the sequence in this transaction
                  lane   |-> 0,           \* where the scan has just ended, in which lane and at which position
                  reached |-> 0]

-----------------------------------------------------------------------------------
(* Senders, and all else that draws numbers: a message that comes back stands in another lane. *)

Begin == /\ begun < Senders
         /\ begun' = begun + 1 /\ open' = open \cup {begun + 1}
         /\ UNCHANGED <<last, messages, session>>

Send(xid, lane) == /\ last < MaxNumber
                   /\ last' = last + 1
                   /\ messages' = messages \cup {[lane |-> lane, position |-> last + 1, row |-> xid, held |-> FALSE]}
                   /\ UNCHANGED <<begun, open, session>>

Commit(xid) == /\ open' = open \ {xid}
               /\ messages' = {IF m.row = xid THEN [m EXCEPT !.row = Nobody] ELSE m : m \in messages}
               /\ UNCHANGED <<last, begun, session>>

Rollback(xid) == /\ open' = open \ {xid}
                 /\ messages' = {m \in messages : m.row # xid}
                 /\ UNCHANGED <<last, begun, session>>

-----------------------------------------------------------------------------------
(* The session. *)

(* The scan of pgqueue.receive ends at the first free message, lane by lane; its row lock takes an id for the transaction. *)
Ahead == {m \in messages : m.row = Nobody /\ m.position > session.memory.cursor[m.lane]}
IsFirst(m) == \A other \in Ahead : other.lane > m.lane \/ (other.lane = m.lane /\ other.position >= m.position)

Scan(m) == /\ session.lane = 0 /\ m \in Ahead /\ IsFirst(m)
           /\ messages' = (messages \ {m}) \cup {[m EXCEPT !.row = Session, !.held = TRUE]}
           /\ session' = [session EXCEPT !.isOpen = TRUE, !.bound = IF session.isOpen THEN @ ELSE open,
                                         !.lane = m.lane, !.reached = m.position]
           /\ UNCHANGED <<last, begun, open>>

(* pgqueue._move_scan, a moment later. *)
Move ==
    /\ session.lane > 0
    /\ LET known   == session.memory
           isNew   == ~session.looked \/ ~Rule("an id proves nothing in its own transaction")
           isOver  == isNew /\ (known.bound \cap open = {} \/ ~Rule("all smaller ids are over"))
           settled == IF isOver THEN known.number ELSE known.settled
           certain == IF Rule("settled before the scan") THEN known.settled ELSE settled
           to(lane) == IF lane > session.lane THEN 0
                       ELSE IF lane < session.lane THEN certain
                       ELSE IF Rule("no further than is settled") THEN Min(session.reached, certain) ELSE session.reached
       IN session' = [session EXCEPT
            !.lane = 0, !.reached = 0, !.looked = TRUE,
            !.memory = [cursor  |-> [lane \in Lanes |-> Max(known.cursor[lane], to(lane))],
                        settled |-> settled,
                        number  |-> IF ~isOver THEN known.number
                                    ELSE IF Rule("the number is older than the id") THEN known.last ELSE last,
                        bound   |-> IF isOver THEN session.bound ELSE known.bound,
                        last    |-> IF isNew THEN last ELSE known.last]]
    /\ UNCHANGED <<last, begun, open, messages>>

(* The end of the session's transaction: what it claimed is gone, or given up. *)
Mine == {m \in messages : m.row = Session}
GivenUp == (messages \ Mine) \cup {[m EXCEPT !.row = Nobody] : m \in Mine}

End(memory) == /\ session.isOpen /\ session.lane = 0
               /\ session' = [session EXCEPT !.isOpen = FALSE, !.bound = {}, !.looked = FALSE, !.memory = memory, !.before = memory]
               /\ UNCHANGED <<last, begun, open>>

CommitClaim   == End(session.memory) /\ messages' = messages \ Mine
RollbackClaim == End(session.before) /\ messages' = GivenUp
PrepareClaim  == End(session.memory) /\ messages' = GivenUp     \* then rolled back elsewhere: a session keeps its settings

Next ==
    \/ Begin
    \/ \E xid \in open : Commit(xid) \/ Rollback(xid) \/ \E lane \in Lanes : Send(xid, lane)
    \/ \E m \in messages : Scan(m)
    \/ Move \/ CommitClaim \/ RollbackClaim \/ PrepareClaim

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
TypesAreRight == session.memory \in Memory /\ session.before \in Memory

NothingNewIsPassed == \A m \in messages : m.row = Nobody /\ ~m.held => m.position > session.memory.cursor[m.lane]
====
