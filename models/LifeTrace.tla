---------------------------------- MODULE LifeTrace ----------------------------------
(* Whether Life allows what receivers have recorded. A history has the events of one message; each delivery is to a   *)
(* receiver of its own. An event is known to come after those that had ended when it began. TLC prints each history   *)
(* that has a behaviour in which all of its events happen.                                                            *)
EXTENDS Life, TLC, Histories

VARIABLES
    history,     \* which of Histories
    done         \* the events that have happened

m      == CHOOSE message \in Messages : TRUE
Events == Histories[history]
May    == {e \in DOMAIN Events \ done : Events[e].after \subseteq done}

(* A receiver whose process was killed before it could write down its delivery. *)
Unheard == "unheard"

(* Chaos receives no dead letters. *)
Delivers(r) == row[m].place # "dead" /\ Receive(r, m) /\ row'[m].drawn = row[m].drawn + 1

Delivered(e) ==
    /\ Delivers(Events[e].by)
    /\ Events[e].count \in {0, row'[m].count}

Committed(e) ==
    LET mine == work[Events[e].by]
    IN Commit(Events[e].by) /\ mine.ends = {m} /\ mine.to = Events[e].to /\ (mine.effects = {m}) = Events[e].hasEffect

Renewed(e) == Renew(Events[e].by, m) /\ UNCHANGED context

(* A lock that was reported as lost. *)
Refused(e) == ~Proves(Events[e].by, m) /\ UNCHANGED vars

(* What was found in the database in the end. *)
Found(e) == row[m].place \in Events[e].places /\ effects[m] = Events[e].effects /\ UNCHANGED vars

Happens(e) ==
    /\ done' = done \cup {e}
    /\ \/ Events[e].verb = "deliver" /\ Delivered(e)
       \/ Events[e].verb = "settle"  /\ Committed(e)
       \/ Events[e].verb = "renew"   /\ Renewed(e)
       \/ Events[e].verb = "lose"    /\ Refused(e)
       \/ Events[e].verb = "find"    /\ Found(e)
       \/ Events[e].isInDoubt /\ UNCHANGED vars

(* Steps that are not recorded. *)
Unrecorded ==
    /\ UNCHANGED done
    /\ \/ Send(m) \/ BecomeDue(m) \/ Expire(m)
       \/ \E e \in May : Events[e].verb = "settle" /\
             LET r == Events[e].by
             IN Begin(r) \/ Pin(r, m) \/ (Events[e].hasEffect /\ Act(r, m)) \/ Settle(r, m, Events[e].to)
       \/ \E r \in Receivers : Abort(r)
       \/ \E e \in May : Events[e].verb = "deliver" /\ Events[e].count > row[m].count + 1 /\ Delivers(Unheard)
       \/ Fault(Unheard, m)

TraceInit == Init /\ done = {} /\ history \in DOMAIN Histories
TraceNext == UNCHANGED history /\ (Unrecorded \/ \E e \in May : Happens(e))
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, history, done>>

Accepted == done = DOMAIN Events => PrintT(<<"accepted", history>>)
====
