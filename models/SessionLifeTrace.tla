------------------------------- MODULE SessionLifeTrace ------------------------------
(* Whether SessionLife allows what receivers have recorded. A history has the events of two messages of a session, of    *)
(* which the second was sent when the first had been; a receiver has accepted the session once. An event is known to     *)
(* come after those that had ended when it began. TLC prints each history that has a behaviour in which all happen.      *)
EXTENDS SessionLife, TLC, Histories

VARIABLES
    history,     \* which of Histories
    done         \* the events that have happened

Events == Histories[history]
May    == {e \in DOMAIN Events \ done : Events[e].after \subseteq done}

(* A receiver of which nothing was recorded. *)
Unheard == "unheard"

Of(e) == {d \in Deliveries : d[1] = Events[e].message /\ delivery[d].by = Events[e].by}

Delivered(e) ==
    LET r == Events[e].by  m == Events[e].message
    IN (Receive(r) \/ ReceiveDeferred(r, m)) /\ row'[m].count = row[m].count + 1

Committed(e) ==
    LET mine == work[Events[e].by]
    IN /\ \E d \in Of(e) : mine = {[of |-> d, to |-> Events[e].to]}
       /\ Commit(Events[e].by) /\ (Events[e].to = "gone") = Events[e].hasEffect

(* A lock that was reported as lost. *)
Refused(e) == Of(e) # {} /\ (\A d \in Of(e) : ~Proves(d)) /\ UNCHANGED vars

(* A session may be released that another has by now. *)
Released(e) ==
    LET r == Events[e].by
    IN IF holder[r].token # 0 /\ holder[r].token = session.token THEN Release(r) ELSE UNCHANGED vars

(* What was found in the database in the end. *)
Found(e) ==
    LET m == Events[e].message
    IN row[m].place \in Events[e].places /\ effects[m] = Events[e].effects /\ UNCHANGED vars

Happens(e) ==
    /\ done' = done \cup {e}
    /\ \/ Events[e].verb = "deliver" /\ Delivered(e)
       \/ Events[e].verb = "settle"  /\ Committed(e)
       \/ Events[e].verb = "lose"    /\ Refused(e)
       \/ Events[e].verb = "release" /\ Released(e)
       \/ Events[e].verb = "find"    /\ Found(e)
       \/ Events[e].isInDoubt /\ UNCHANGED vars

(* Steps that are not recorded. *)
Unrecorded ==
    /\ UNCHANGED done
    /\ \/ Expire \/ \E m \in Messages : BecomeDue(m)
       \/ \E e \in May :
             \/ Events[e].verb = "deliver" /\ holder[Events[e].by].token = 0 /\ Accept(Events[e].by)
             \/ Events[e].verb = "lose" /\ Accept(Unheard)
             \/ Events[e].verb = "settle" /\ \E d \in Of(e) : Settle(Events[e].by, d, Events[e].to)
       \/ \E r \in Receivers : Abort(r)

TraceInit == Init /\ done = {} /\ history \in DOMAIN Histories
TraceNext == UNCHANGED history /\ (Unrecorded \/ \E e \in May : Happens(e))
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, history, done>>

Accepted == done = DOMAIN Events => PrintT(<<"accepted", history>>)
====
