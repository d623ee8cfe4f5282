------------------------------ MODULE MessageSessions ------------------------------
(* A session of messages, as docs/adr/0044 has it: the rows by which a receiver finds that the session has messages,     *)
(* which senders insert without waiting for each other, and the session's lock, under which its messages are settled.    *)
(* A message has the number of its sender's transaction.                                                                 *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Senders,      \* how many transactions send a message, each one to this session
    Receivers,    \* who accept the session, and lose it at any moment: time is left out
    MaxToken,     \* how often the session is accepted
    Broken        \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

Numbers == 1..Senders

VARIABLES
    message,      \* of each: "unsent", "open" (sent, not committed), "waiting", "settling", "settled", or "undone"
    row,          \* pgqueue.waiting_session: each is the row that the sender of this number inserted
    token,        \* of the session's lock: the last one that was drawn
    receiver,     \* what each remembers, and where it stands
    passed        \* messages that were not received before a later one of the session

vars == <<message, row, token, receiver, passed>>

Nobody  == "nobody"
NoRow   == [is |-> "absent", shared |-> {}, locked |-> Nobody]
Without == [token |-> 0, got |-> {}, step |-> "idle", settling |-> {}]

Init ==
    /\ message = [n \in Numbers |-> "unsent"]
    /\ row = [n \in Numbers |-> NoRow]
    /\ token = 0 /\ passed = {}
    /\ receiver = [r \in Receivers |-> Without]

Smallest(numbers) == CHOOSE n \in numbers : \A other \in numbers : n <= other

Visible      == {n \in Numbers : message[n] \in {"waiting", "settling"}}      \* to a snapshot that is taken now
IsOpen(n)    == message[n] = "open"
IsHolder(r)  == receiver[r].token = token /\ token > 0
IsPinned     == \E r \in Receivers : receiver[r].settling # {}

(* _announce_sessions: a row that no one is about to delete is shared until the sender's transaction ends, so that nobody    *)
(* deletes it; where there is none, the sender inserts one.                                                              *)
Send(n) ==
    /\ message[n] = "unsent"
    /\ message' = [message EXCEPT ![n] = "open"]
    /\ LET found == {r \in Numbers : row[r].is = "there" /\ row[r].locked = Nobody}
       IN IF found = {} THEN row' = [row EXCEPT ![n] = [NoRow EXCEPT !.is = "open"]]
          ELSE \E r \in found : row' = [row EXCEPT ![r].shared = IF Rule("a sender shares the row") THEN @ \cup {n} ELSE @]
    /\ UNCHANGED <<token, receiver, passed>>

EndSend(n, state, is) ==
    /\ IsOpen(n)
    /\ message' = [message EXCEPT ![n] = state]
    /\ row' = [r \in Numbers |-> [row[r] EXCEPT !.shared = @ \ {n}, !.is = IF r = n /\ @ = "open" THEN is ELSE @]]
    /\ UNCHANGED <<token, receiver, passed>>

(* accept_session, by name or by a row that is found. The lock may be free, or over; a transaction that settles pins it. *)
Accept(r) ==
    /\ receiver[r].step = "idle" /\ receiver[r].settling = {} /\ token < MaxToken
    /\ ~IsPinned \/ ~Rule("a settlement pins the session")
    /\ token' = token + 1
    /\ receiver' = [receiver EXCEPT ![r] = [Without EXCEPT !.token = token + 1]]
    /\ UNCHANGED <<message, row, passed>>

(* receive_from_session: the first message that this holder does not have; it does not skip what a transaction holds.    *)
Receive(r) ==
    /\ IsHolder(r) /\ receiver[r].step = "idle"
    /\ LET new  == Visible \ receiver[r].got
           free == IF Rule("a receive stops at what a transaction holds") THEN new ELSE {n \in new : message[n] = "waiting"}
       IN /\ free # {} /\ message[Smallest(free)] = "waiting"
          /\ receiver' = [receiver EXCEPT ![r].got = @ \cup {Smallest(free)}]
          /\ passed' = passed \cup {n \in new : n < Smallest(free)}
    /\ UNCHANGED <<message, row, token>>

(* complete, in a transaction that stays open for a while. *)
Settle(r, n) ==
    /\ receiver[r].step = "idle" /\ n \in receiver[r].got /\ message[n] = "waiting"
    /\ IsHolder(r) \/ ~Rule("a settlement proves the session's lock")
    /\ message' = [message EXCEPT ![n] = "settling"]
    /\ receiver' = [receiver EXCEPT ![r].settling = @ \cup {n}]
    /\ UNCHANGED <<row, token, passed>>

EndSettle(r, state) ==
    /\ receiver[r].settling # {}
    /\ message' = [n \in Numbers |-> IF n \in receiver[r].settling THEN state ELSE message[n]]
    /\ receiver' = [receiver EXCEPT ![r].settling = {}, ![r].got = @ \ receiver[r].settling]
    /\ UNCHANGED <<row, token, passed>>

(* _forget_waiting: who finds the session empty deletes its rows. It locks those that no sender shares, looks again, with *)
(* a snapshot of its own, and deletes what it has locked.                                                                *)
Step(r, step) == receiver' = [receiver EXCEPT ![r].step = step]
Free(r)       == [n \in Numbers |-> [row[n] EXCEPT !.locked = IF @ = r THEN Nobody ELSE @]]

FindEmpty(r) ==
    /\ receiver[r].step = "idle" /\ receiver[r].settling = {} /\ Visible = {}
    /\ Step(r, "found it empty")
    /\ UNCHANGED <<message, row, token, passed>>

Lock(r) ==
    /\ receiver[r].step = "found it empty"
    /\ row' = [n \in Numbers |->
         IF row[n].is = "there" /\ row[n].locked = Nobody /\ (row[n].shared = {} \/ ~Rule("rows that a sender shares are left"))
            THEN [row[n] EXCEPT !.locked = r] ELSE row[n]]
    /\ Step(r, "locked")
    /\ UNCHANGED <<message, token, passed>>

LookAgain(r) ==
    /\ receiver[r].step = "locked"
    /\ IF Visible = {} \/ ~Rule("messages are looked for after the lock")
          THEN Step(r, "deletes") /\ UNCHANGED row ELSE Step(r, "idle") /\ row' = Free(r)
    /\ UNCHANGED <<message, token, passed>>

Delete(r, state) ==
    /\ receiver[r].step = "deletes"
    /\ row' = [n \in Numbers |-> IF row[n].locked = r THEN [NoRow EXCEPT !.is = state] ELSE row[n]]
    /\ Step(r, "idle")
    /\ UNCHANGED <<message, token, passed>>

Next ==
    \/ \E n \in Numbers : Send(n) \/ EndSend(n, "waiting", "there") \/ EndSend(n, "undone", "absent")
    \/ \E r \in Receivers :
        \/ Accept(r) \/ Receive(r) \/ EndSettle(r, "settled") \/ EndSettle(r, "waiting")
        \/ FindEmpty(r) \/ Lock(r) \/ LookAgain(r) \/ Delete(r, "absent") \/ Delete(r, "there")
        \/ \E n \in Numbers : Settle(r, n)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
(* A session with a message has a row, unless somebody is just about to look. *)
EverySessionIsFound ==
    (\A r \in Receivers : receiver[r].step = "idle") /\ Visible # {} => \E n \in Numbers : row[n].is = "there"

(* Only the holder has a transaction open that settles. *)
TheHolderSettles == \A r \in Receivers : receiver[r].settling # {} => IsHolder(r)

(* No message is received before one that precedes it, and that could be seen. *)
NothingIsPassed == passed = {}
====
