---------------------------------- MODULE Cursor ----------------------------------
(* The recorded cursor of a queue: no receiver ever loses sight of a message. README.md says what is left out, *)
(* docs/engine.md how the engine works.                                                                       *)
EXTENDS Integers, FiniteSets

CONSTANTS
    MaxXid,       \* how many transaction ids are handed out
    MaxNumber,    \* how many sequence numbers
    Savepoints,   \* whether transactions set savepoints, and undo what they did since
    Claims,       \* whether messages are claimed, given up, settled and returned, besides being sent
    Backs,        \* how often the sequence goes back
    Restores,     \* how often a dump of the database is restored into a new cluster
    Seconds,      \* how long a receiver may take for all that is there
    Broken        \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

VARIABLES
    db,           \* the tables, the sequence, and which transactions are open
    turn,         \* what a turn that is under way has read by now
    accidents     \* how often what went back, and whether a turn can still notice that the sequence did

vars == <<db, turn, accidents>>

Max(a, b) == IF a > b THEN a ELSE b
Highest(set) == CHOOSE n \in set : \A other \in set : n >= other
Lowest(set) == CHOOSE n \in set : \A other \in set : n <= other
Infinity == 1000

-----------------------------------------------------------------------------------
(* The state. A transaction that may bring a number has an id, and `open` is what pg_snapshot_xip shows: no ids of *)
(* savepoints. It needs no session, so any of them may be a prepared one. Transactions of receivers bring no       *)
(* numbers; here they have no ids, but rows that they hold.                                                        *)

Lanes == {"fresh", "returned"}

Nobody   == 0       \* who holds a row, unless it is a transaction with an id
Receiver == -1

Sent(number, xid) ==
    [lane     |-> "fresh", position |-> number,
     new      |-> TRUE,         \* not committed yet: only its own transaction sees it
     row      |-> xid,          \* the open transaction that holds the row
     lock     |-> "none",       \* locked_until: "none" is null, "held" lies ahead, "expired" has passed
     to       |-> 0,            \* where in the redelivery lane it stands once `row` has committed
     watched  |-> FALSE,        \* whether pgqueue.watch has its place
     claims   |-> 0]            \* how many think that it is theirs

Place(m)   == <<m.lane, m.position>>
Visible(d) == {m \in d.messages : ~m.new}
IsFree(m)  == m.row = Nobody /\ m.lock # "held"
Waiting(d) == {m \in Visible(d) : IsFree(m)}

Replace(d, old, new) == [d EXCEPT !.messages = (@ \ {old}) \cup {new}]

Idle == [step |-> 0, number |-> 0, xid |-> 0, open |-> {}, seen |-> {}]

Init ==
    /\ db = [last     |-> 0,        \* the last number that was handed out
             next     |-> 1,        \* the next transaction id
             open     |-> {},
             messages |-> {},
             progress |-> [lane \in Lanes |-> [cursor |-> 0, horizon |-> 0, xid |-> 0, awaited |-> {}]]]
    /\ turn = Idle
    /\ accidents = [backs |-> 0, restores |-> 0, sequence |-> "in order"]

-----------------------------------------------------------------------------------
(* A turn, function by function; each maps the database to what it is afterwards. *)

(* _advance_cursors: to the first message that is free to take, to the horizon at the most. It once went on to what the  *)
(* session that takes the turn had not `overtaken`.                                                                  *)
Reach(p, lane, messages, overtaken) ==
    LET from == IF Rule("the cursor stops in turns of all receivers") THEN p.cursor ELSE Max(p.cursor, overtaken)
        free == {m \in messages : m.lane = lane /\ m.position > from /\ m.position <= p.horizon /\ m.lock = "none"}
        stop == {m.position : m \in {m \in free : Rule("the cursor passes held rows") => m.row = Nobody}}
    IN IF stop = {} \/ ~Rule("the cursor stops before what is free") THEN Max(p.cursor, p.horizon) ELSE Lowest(stop) - 1

(* _watch_passed: what is still there between two positions of a lane goes under watch. *)
Watch(messages, lane, above, up_to) ==
    {IF ~m.new /\ m.lane = lane /\ above < m.position /\ m.position <= up_to THEN [m EXCEPT !.watched = TRUE] ELSE m :
     m \in messages}

(* _watch_late_commits: what came behind the cursor from transactions that were awaited and have ended goes under watch. *)
WatchLate(messages, lane, p, over) ==
    LET above == IF Rule("watched from the lowest place awaited") THEN Lowest({late.above : late \in over})
                 ELSE Highest({late.above : late \in over})
    IN IF over = {} \/ ~Rule("late messages are watched") THEN messages ELSE Watch(messages, lane, above, p.cursor)

(* _advance_cursors: open transactions that may hold a number up to the horizon are remembered, as the cursor leaves for it. *)
Await(p, open, reached) ==
    LET late  == {xid \in open : xid < p.xid /\ \A known \in p.awaited : known.xid # xid}
        above == IF Rule("awaited from where the cursor stood") THEN p.cursor ELSE reached
    IN IF reached = p.cursor \/ ~Rule("open transactions are awaited") THEN p.awaited
       ELSE p.awaited \cup {[xid |-> xid, above |-> above] : xid \in late}

(* _advance_cursors, of one lane. What is not among the places `seen` was not committed yet when the statements ran. *)
AdvanceLane(d, lane, read, overtaken) ==
    LET p        == IF Rule("the horizon is a turn old") THEN d.progress[lane]
                    ELSE [d.progress[lane] EXCEPT !.horizon = read.number, !.xid = read.xid]
        over     == {late \in p.awaited : late.xid \notin read.open}
        unseen   == {m \in d.messages : Place(m) \notin read.seen}
        caught   == WatchLate(d.messages \ unseen, lane, p, over)
        reached  == Reach(p, lane, caught, overtaken)
        passed   == IF Rule("passed messages are watched") THEN Watch(caught, lane, p.cursor, reached) ELSE caught
        kept     == [p EXCEPT !.awaited = IF Rule("awaited until they end") THEN @ \ over ELSE {}]
    IN [d EXCEPT !.messages       = passed \cup unseen,
                 !.progress[lane] = [cursor |-> reached, horizon |-> read.number, xid |-> read.xid,
                                     awaited |-> Await(kept, read.open, reached)]]

(* _repair_sequence: first the cursors begin again; in a later transaction the sequence is put above what is in use. *)
InUse(d) == {d.progress[lane].horizon : lane \in Lanes} \cup {m.position : m \in Visible(d)}
SetSequence(d) == [d EXCEPT !.last = Highest(InUse(d) \cup {d.last})]

WentBack(d) == \E lane \in Lanes : d.progress[lane].horizon > d.last

Mend(d) ==
    LET anew(p) == [cursor  |-> IF Rule("the repair begins at the front") THEN 0 ELSE p.cursor,
                    horizon |-> p.horizon,
                    xid     |-> IF Rule("the repair awaits all open transactions") THEN Infinity ELSE p.xid,
                    awaited |-> IF Rule("the repair awaits them from the front") THEN {} ELSE p.awaited]
        begins(p) == p # anew(p) /\ (Rule("the repair begins in every lane") \/ p.cursor > 0)
        progress  == [lane \in Lanes |-> IF begins(d.progress[lane]) THEN anew(d.progress[lane]) ELSE d.progress[lane]]
        mended    == progress = d.progress \/ ~WentBack(d)
    IN IF mended /\ Rule("the repair waits for no other queue") THEN SetSequence(d)
       ELSE [d EXCEPT !.progress = progress]

Mends(d) == WentBack(d) /\ Rule("a turn repairs the sequence")

Advance(d, read, overtaken) ==
    AdvanceLane(AdvanceLane(d, "fresh", read, overtaken["fresh"]), "returned", read, overtaken["returned"])

(* _redeliver_watched, with _redeliver: what is free goes to the redelivery lane, at a new position. In SQL the time at *)
(* which a lock ends decides when it is looked at; here any time will do.                                             *)
Returned(m, position) ==
    [m EXCEPT !.lane = "returned", !.position = position, !.new = FALSE, !.row = Nobody, !.lock = "none", !.to = 0,
              !.watched = FALSE]

RECURSIVE Return(_, _)
Return(d, watched) ==
    IF watched = {} THEN d ELSE
    LET m      == CHOOSE m \in watched : \A other \in watched : m.position <= other.position
        number == IF Rule("returning messages get a new position") THEN d.last + 1 ELSE m.position
        back   == [Replace(d, m, Returned(m, number)) EXCEPT !.last = Max(@, number)]
    IN Return(
        IF IsFree(m) \/ ~Rule("only what is free returns") THEN back
        ELSE IF Rule("held messages stay watched") THEN d ELSE Replace(d, m, [m EXCEPT !.watched = FALSE]),
        watched \ {m})

ReturnWatched(d) == Return(d, {m \in Visible(d) : m.watched})

(* _take_turn: whether there is something to do for _advance_cursors. *)
HasTurn(d) ==
    \E lane \in Lanes :
       LET p == d.progress[lane]
       IN \/ WentBack(d) /\ Rule("a turn looks at the sequence")
          \/ \E late \in p.awaited : late.xid \notin d.open /\ Rule("a turn looks at who has ended")
          \/ \E m \in Visible(d) : m.lane = lane /\ m.position > p.cursor

(* _find_overlooked, _repair_watch and _is_sequence_behind: the sweep. *)
Overlooked(d) ==
    {m \in Visible(d) :
        LET p == d.progress[m.lane]
        IN /\ m.position <= p.cursor /\ ~m.watched
           /\ ~\E late \in p.awaited : late.above < m.position /\ late.xid \notin d.open}

Sweep(d) ==
    LET watched == {IF m \in Overlooked(d) THEN [m EXCEPT !.watched = TRUE] ELSE m : m \in d.messages}
        swept   == ReturnWatched(IF Rule("the sweep repairs") THEN [d EXCEPT !.messages = watched] ELSE d)
    IN IF \E number \in InUse(swept) : number > swept.last THEN Mend(swept) ELSE swept

-----------------------------------------------------------------------------------
(* Everybody goes on: what happens in the database. *)

CanDraw == db.last < MaxNumber
Draw    == db.last + 1
IsTaken(number) == \E m \in db.messages : m.position = number \/ m.to = number      \* the primary key, over-strict

(* A turn cannot notice any more that the sequence went back, once others have caught up with the horizon. *)
AfterDraw == accidents' = [accidents EXCEPT !.sequence =
    IF @ = "went back" /\ ~WentBack(db') THEN "went back unnoticed" ELSE @]

(* pgqueue.send and others: pg_current_xact_id() first. *)
Begin == /\ db.next <= MaxXid
         /\ db' = [db EXCEPT !.next = @ + 1, !.open = @ \cup {db.next}]
         /\ UNCHANGED <<turn, accidents>>

(* pgqueue.send: a number, and the row. *)
Send(xid) == /\ CanDraw /\ ~IsTaken(Draw)
             /\ db' = [db EXCEPT !.last = Draw, !.messages = @ \cup {Sent(Draw, xid)}]
             /\ AfterDraw /\ UNCHANGED turn

(* As if pgqueue.send drew its number first: the row has no transaction id yet; then it has. *)
DrawFirst == /\ ~Rule("an id before a number") /\ CanDraw /\ ~IsTaken(Draw)
             /\ db' = [db EXCEPT !.last = Draw, !.messages = @ \cup {Sent(Draw, Infinity)}]
             /\ AfterDraw /\ UNCHANGED turn
InsertLate(m) == /\ m.row = Infinity /\ db.next <= MaxXid
                 /\ db' = [Replace(db, m, [m EXCEPT !.row = db.next]) EXCEPT !.next = @ + 1, !.open = @ \cup {db.next}]
                 /\ UNCHANGED <<turn, accidents>>

(* A number that is drawn for another queue, or in a transaction that is rolled back. *)
DrawElsewhere == /\ Backs > 0 /\ CanDraw
                 /\ db' = [db EXCEPT !.last = Draw]
                 /\ AfterDraw /\ UNCHANGED turn

(* SAVEPOINT takes an id that no snapshot shows, larger than that of its transaction ... *)
Savepoint == /\ Savepoints /\ db.open # {} /\ db.next <= MaxXid
             /\ db' = [db EXCEPT !.next = @ + 1]
             /\ UNCHANGED <<turn, accidents>>

(* ... and ROLLBACK TO undoes what was done since, while the transaction goes on. *)
Undone(m) == IF m.new THEN {} ELSE {[m EXCEPT !.row = Nobody, !.to = 0]}
RollbackTo(m) == /\ Savepoints /\ m.row \in db.open
                 /\ db' = [db EXCEPT !.messages = (@ \ {m}) \cup Undone(m)]
                 /\ UNCHANGED <<turn, accidents>>

Over(xid, messages) == [db EXCEPT !.open = @ \ {xid}, !.messages = messages]

Commit(xid) ==
    /\ db' = Over(xid, {IF m.row # xid THEN m ELSE IF m.to > 0 THEN [Returned(m, m.to) EXCEPT !.claims = 0]
                        ELSE [m EXCEPT !.new = FALSE, !.row = Nobody] : m \in db.messages})
    /\ UNCHANGED <<turn, accidents>>

Rollback(xid) ==
    /\ db' = Over(xid, UNION {IF m.row # xid THEN {m} ELSE Undone(m) : m \in db.messages})
    /\ UNCHANGED <<turn, accidents>>

(* receive, receive_and_delete: some receiver, whose own cursor may stand anywhere, claims a message in a transaction ... *)
Claim(m) == /\ IsFree(m) /\ ~m.new
            /\ db' = Replace(db, m, [m EXCEPT !.row = Receiver, !.claims = @ + 1])
            /\ UNCHANGED <<turn, accidents>>

(* ... which ends: with a lock, with the message gone, or rolled back. *)
EndOfClaim(m) ==
    /\ m.row = Receiver
    /\ \/ db' = Replace(db, m, [m EXCEPT !.row = Nobody, !.lock = "held"])
       \/ db' = Replace(db, m, [m EXCEPT !.row = Nobody, !.claims = @ - 1])
       \/ db' = [db EXCEPT !.messages = @ \ {m}]
    /\ UNCHANGED <<turn, accidents>>

(* Time goes by: a lock runs out, and is lost to whoever comes first. *)
Expire(m) == /\ m.lock = "held" /\ m.row = Nobody
             /\ db' = Replace(db, m, [m EXCEPT !.lock = "expired", !.claims = 0])
             /\ UNCHANGED <<turn, accidents>>

(* complete, dead_letter, defer: the message leaves the lanes. *)
Settle(m) == /\ m.lock # "none" /\ m.row = Nobody
             /\ db' = [db EXCEPT !.messages = @ \ {m}]
             /\ UNCHANGED <<turn, accidents>>

(* abandon, in a transaction that may stay open: _redeliver draws the new position. *)
Abandon(xid, m) == /\ m.lock # "none" /\ m.row = Nobody /\ CanDraw /\ ~IsTaken(Draw)
                   /\ db' = [Replace(db, m, [m EXCEPT !.row = xid, !.to = Draw]) EXCEPT !.last = Draw]
                   /\ AfterDraw /\ UNCHANGED turn

-----------------------------------------------------------------------------------
(* Turns, by whoever: one at a time, because the rows of pgqueue.progress are locked, and a second apart. *)

(* _next_xid: above every id that was handed out, not only above those that have ended, as the end of a snapshot is. *)
Ended   == (1 .. db.next - 1) \ db.open
NextXid == IF Rule("the id is above all handed out") THEN db.next ELSE Highest({0} \cup Ended) + 1

(* _advance_cursors reads the last number, then takes the next id. *)
ReadNumber == /\ turn.step = 0 /\ HasTurn(db)
              /\ turn' = IF Rule("the number is read before the id") THEN [Idle EXCEPT !.step = 1, !.number = db.last]
                         ELSE [Idle EXCEPT !.step = 1, !.xid = NextXid]
              /\ UNCHANGED <<db, accidents>>

TakeId == /\ turn.step = 1
          /\ turn' = IF Rule("the number is read before the id") THEN [turn EXCEPT !.step = 2, !.xid = NextXid]
                     ELSE [turn EXCEPT !.step = 2, !.number = db.last]
          /\ UNCHANGED <<db, accidents>>

(* It locks the row, and looks at the sequence again, ... *)
MendSequence == /\ turn.step = 2 /\ Mends(db)
                /\ db' = Mend(db)
                /\ turn' = Idle
                /\ accidents' = [accidents EXCEPT !.sequence = IF @ = "went back" THEN "in order" ELSE @]

(* ... and at who is open, *)
ReadOpen == /\ turn.step = 2 /\ ~Mends(db)
            /\ turn' = IF Rule("open transactions are read before the messages") THEN [turn EXCEPT !.step = 3, !.open = db.open]
                       ELSE [turn EXCEPT !.step = 3, !.seen = {Place(m) : m \in Visible(db)}]
            /\ UNCHANGED <<db, accidents>>

Nowhere == [lane \in Lanes |-> 0]

(* then walks, and commits. *)
EndTurn ==
    LET read == IF Rule("open transactions are read before the messages")
                THEN [turn EXCEPT !.seen = {Place(m) : m \in Visible(db)}] ELSE [turn EXCEPT !.open = db.open]
    IN /\ turn.step = 3
       /\ db' = Advance(db, read, Nowhere)
       /\ turn' = Idle
       /\ UNCHANGED accidents

(* Setting the sequence is not undone with the transaction: so not in the one that begins to mend. *)
UndoneMending == /\ ~Rule("the sequence is set in a later transaction") /\ WentBack(db)
                 /\ db' = SetSequence(db)
                 /\ UNCHANGED <<turn, accidents>>

LookAtWatched == /\ \E m \in Visible(db) : m.watched
                 /\ LET after == ReturnWatched(db) IN after.last <= MaxNumber /\ db' = after
                 /\ AfterDraw /\ UNCHANGED turn

-----------------------------------------------------------------------------------
(* Accidents. *)

(* setval by hand, or a database that was restored without its sequence. *)
GoBack == /\ accidents.backs < Backs
          /\ \E number \in 0 .. db.last - 1 :
                /\ db' = [db EXCEPT !.last = number]
                /\ accidents' = [accidents EXCEPT !.backs = @ + 1,
                                    !.sequence = IF WentBack(db') \/ turn.number > number THEN "went back" ELSE @]
          /\ UNCHANGED turn

(* A dump, restored into a new cluster: what was committed, ids from the beginning, nobody connected. *)
Restore == /\ accidents.restores < Restores
           /\ db' = [db EXCEPT !.next = 1, !.open = {},
                               !.messages = {[m EXCEPT !.row = Nobody, !.to = 0, !.claims = IF m.lock = "held" THEN 1 ELSE 0] : m \in Visible(db)}]
           /\ turn' = Idle
           /\ accidents' = [accidents EXCEPT !.restores = @ + 1]

Next ==
    \/ Begin \/ DrawFirst \/ DrawElsewhere \/ Savepoint
    \/ \E xid \in db.open : Send(xid) \/ Commit(xid) \/ Rollback(xid)
    \/ \E m \in db.messages : InsertLate(m) \/ RollbackTo(m)
    \/ Claims /\ \E m \in db.messages : Claim(m) \/ EndOfClaim(m) \/ Expire(m) \/ Settle(m) \/ \E xid \in db.open : Abandon(xid, m)
    \/ ReadNumber \/ TakeId \/ MendSequence \/ ReadOpen \/ EndTurn \/ UndoneMending \/ LookAtWatched
    \/ GoBack \/ Restore

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
(* What must hold. *)

NoMessageIsClaimedByTwo == \A m \in db.messages : m.claims <= 1

(* Now only one receiver goes on, as it would second by second, until there is nothing left that it may have. Nothing *)
(* that a session remembers is trusted, so its own cursors begin anywhere: where it was before a rollback, before a    *)
(* restore, or at the very end because it has just overtaken everything.                                              *)

(* take_turn: with nobody between its statements. *)
Turn(d, overtaken) ==
    LET read  == [number |-> d.last, xid |-> d.next, open |-> d.open, seen |-> {Place(m) : m \in Visible(d)}]
    IN IF HasTurn(d) /\ Mends(d) THEN Mend(d)
       ELSE ReturnWatched(IF HasTurn(d) THEN Advance(d, read, overtaken) ELSE d)

(* _load_scan. *)
Load(d, scan) ==
    LET forgot == \E lane \in Lanes : scan[lane] > d.last
        own    == IF forgot /\ Rule("a session forgets what lies ahead") THEN Nowhere ELSE scan
        gap(lane) == \E m \in Visible(d) : Place(m) = <<lane, d.progress[lane].cursor + 1>> /\ m.lock = "none"
    IN [lane \in Lanes |-> IF gap(lane) /\ Rule("a session goes back") THEN d.progress[lane].cursor
                           ELSE Max(own[lane], d.progress[lane].cursor)]

(* receive, until nothing comes any more: what is completed is gone, and the session's cursors are behind it. *)
Receive(s) ==
    LET found(lane) == {m \in Waiting(s.db) : m.lane = lane /\ m.position > s.scan[lane]}
    IN [s EXCEPT !.db.messages = @ \ (found("fresh") \cup found("returned")),
                 !.scan = [lane \in Lanes |-> Highest({@[lane]} \cup {m.position : m \in found(lane)})]]

(* A second of a peek-lock receiver, which takes turns itself, or of a transacted one, for which another session does. *)
Second(s, kind) ==
    LET turned(now, overtaken) == [now EXCEPT !.db = Turn(now.db, overtaken)]
        loaded(now) == [now EXCEPT !.scan = Load(now.db, now.scan)]
        peeked      == Receive(loaded(turned(s, s.scan)))
    IN IF kind = "transacted" THEN Receive(loaded(turned(s, Nowhere)))
       ELSE Receive(loaded(turned(peeked, peeked.scan)))

RECURSIVE ReceivesAll(_, _, _, _)
ReceivesAll(s, kind, sweeps, seconds) ==
    \/ Waiting(s.db) = {}
    \/ /\ seconds > 0
       /\ ReceivesAll(Second(IF sweeps THEN [s EXCEPT !.db = Sweep(@)] ELSE s, kind), kind, sweeps, seconds - 1)

Scans == {[lane \in Lanes |-> number] : number \in {0, db.last, db.last + 2}}

(* Others that have caught up with a sequence that went back hide it from turns. And in a restored database somebody else *)
(* may have the id of a transaction that is awaited, and stay open. Then the sweep comes to help.                         *)
NeedsSweep == accidents.sequence = "went back unnoticed" \/ (accidents.restores > 0 /\ db.open # {})

EveryReceiverReceivesAll ==
    turn.step = 0 =>
        \A kind \in {"peek-lock", "transacted"}, scan \in Scans :
           ReceivesAll([db |-> db, scan |-> scan], kind, NeedsSweep, Seconds)
====
