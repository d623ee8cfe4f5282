---------------------------------- MODULE Claims ----------------------------------
(* Claims of a Spark consumer, as docs/adr/0022 has them: drivers that may be paused between any two steps, and      *)
(* sessions that end. Every message takes effect once, in the transaction that completes its claim.                    *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Drivers,      \* processes that work for one consumer, under its one name
    Messages,
    MaxEpoch,     \* how often a session attaches
    MaxClaims,    \* how many claims a consumer makes
    MaxDrops,     \* how often the consumer is dropped, and made anew
    Broken        \* the rules that are left out: a twin, which TLC has to refute

Rule(name) == name \notin Broken

VARIABLES
    queue,        \* messages that wait
    effects,      \* how often each message took effect
    consumer,     \* the row of the consumer, its open claim, and who is attached
    log,          \* the last claim in Spark's commit log
    driver        \* what each driver remembers

vars == <<queue, effects, consumer, log, driver>>

Nobody == "nobody"

(* Of a driver: the epoch that it drew, the claim that it works on, and what it has read of it. *)
Unattached == [epoch |-> 0, claim |-> 0, rows |-> {}, step |-> "idle"]

Init ==
    /\ queue = Messages /\ effects = [m \in Messages |-> 0] /\ log = 0
    /\ consumer = [attached |-> Nobody, epoch |-> 0, clock |-> 0, claim |-> 0, settled |-> 0, rows |-> {}, drops |-> 0]
    /\ driver = [d \in Drivers |-> Unattached]

IsOpen(claim)  == claim = consumer.claim /\ claim > consumer.settled
IsCurrent(d)   == driver[d].epoch = consumer.epoch /\ consumer.epoch > 0      \* 0: there is no such consumer
MaySettle(d)   == IsCurrent(d) \/ ~Rule("a settlement names the epoch")
Idle(d)        == driver' = [driver EXCEPT ![d] = [Unattached EXCEPT !.epoch = driver[d].epoch]]

(* attach_consumer: the advisory lock is free when the session that held it is over. The clock draws the epoch; where it *)
(* stands or went back the last epoch does.                                                                              *)
Attach(d) ==
    /\ consumer.attached = Nobody /\ driver[d].step = "idle" /\ consumer.clock < MaxEpoch
    /\ LET epoch == IF ~Rule("each session draws an epoch") THEN 1
                    ELSE IF Rule("epochs go on when a consumer is dropped") THEN consumer.clock + 1 ELSE consumer.epoch + 1
       IN consumer' = [consumer EXCEPT !.attached = d, !.epoch = epoch, !.clock = @ + 1]
    /\ driver' = [driver EXCEPT ![d] = [Unattached EXCEPT !.epoch = consumer'.epoch]]
    /\ UNCHANGED <<queue, effects, log>>

(* pg_terminate_backend, a broken connection, the end of the process: the driver need not notice. *)
LoseSession ==
    /\ consumer.attached # Nobody
    /\ consumer' = [consumer EXCEPT !.attached = Nobody]
    /\ UNCHANGED <<queue, effects, log, driver>>

(* claim_batch: all up to the commit log is settled; then the open claim, or a new one. *)
ClaimBatch(d) ==
    /\ driver[d].step = "idle" /\ IsCurrent(d) /\ log <= consumer.claim
    /\ LET done == [consumer EXCEPT !.settled = IF IsOpen(log) THEN log ELSE @]
       IN \/ /\ done.claim > done.settled
             /\ consumer' = done /\ UNCHANGED queue
          \/ /\ done.claim = done.settled /\ done.claim < MaxClaims
             /\ \E rows \in SUBSET queue \ {{}} :
                   /\ consumer' = [done EXCEPT !.claim = @ + 1, !.rows = rows]
                   /\ queue' = queue \ rows
    /\ driver' = [driver EXCEPT ![d] = [@ EXCEPT !.claim = consumer'.claim, !.step = "claimed"]]
    /\ UNCHANGED <<effects, log>>

(* A task reads the rows by the token of the claim: none when they are gone ... *)
Read(d) ==
    /\ driver[d].step = "claimed"
    /\ driver' = [driver EXCEPT ![d].rows = IF IsOpen(driver[d].claim) THEN consumer.rows ELSE {}, ![d].step = "read"]
    /\ UNCHANGED <<queue, effects, consumer, log>>

(* ... and check_claim afterwards: the task fails where the claim is not this driver's any more. *)
Check(d) ==
    /\ driver[d].step = "read"
    /\ IF (IsOpen(driver[d].claim) /\ IsCurrent(d)) \/ ~Rule("a task checks the claim after it has read")
          THEN driver' = [driver EXCEPT ![d].step = "ready"] ELSE Idle(d)
    /\ UNCHANGED <<queue, effects, consumer, log>>

(* in_transaction, complete_claim: the effects and the end of the claim, together; a claim that was settled before has  *)
(* no effect again. A driver of another epoch is refused.                                                               *)
Complete(d) ==
    /\ driver[d].step = "ready" /\ MaySettle(d) /\ driver[d].claim <= consumer.claim
    /\ LET claim == IF Rule("a settlement names the claim") THEN driver[d].claim ELSE consumer.claim
       IN IF IsOpen(claim) \/ ~Rule("a claim is settled once")
             THEN /\ effects' = [m \in Messages |-> effects[m] + IF m \in driver[d].rows THEN 1 ELSE 0]
                  /\ consumer' = [consumer EXCEPT !.settled = consumer.claim, !.rows = {}]
             ELSE UNCHANGED <<effects, consumer>>
    /\ driver' = [driver EXCEPT ![d].step = "done"]
    /\ UNCHANGED <<queue, log>>

Refused(d) ==
    /\ driver[d].step = "ready" /\ (~MaySettle(d) \/ driver[d].claim > consumer.claim)
    /\ Idle(d)
    /\ UNCHANGED <<queue, effects, consumer, log>>

(* Spark writes its commit log after the batch; a driver may be killed before that. *)
Log(d) ==
    /\ driver[d].step = "done"
    /\ log' = IF IsCurrent(d) THEN driver[d].claim ELSE log       \* Spark refuses a second writer of its log
    /\ Idle(d)
    /\ UNCHANGED <<queue, effects, consumer>>

Killed(d) ==
    /\ driver[d].step # "idle"
    /\ Idle(d)
    /\ UNCHANGED <<queue, effects, consumer, log>>

(* release_claim. *)
Release(d) ==
    /\ IsOpen(consumer.claim) /\ IsCurrent(d)
    /\ queue' = queue \cup consumer.rows
    /\ consumer' = [consumer EXCEPT !.settled = consumer.claim, !.rows = {}]
    /\ UNCHANGED <<effects, log, driver>>

(* drop_consumer, when nobody is attached. Claims of one that is made anew begin at 1 again, with a new checkpoint. *)
Drop ==
    /\ consumer.attached = Nobody /\ consumer.drops < MaxDrops /\ consumer.epoch > 0
    /\ queue' = queue \cup consumer.rows
    /\ log' = 0
    /\ consumer' = [consumer EXCEPT !.claim = 0, !.settled = 0, !.rows = {}, !.drops = @ + 1,
                                    !.epoch = 0]
    /\ UNCHANGED <<effects, driver>>

Next ==
    \/ LoseSession \/ Drop
    \/ \E d \in Drivers : Attach(d) \/ ClaimBatch(d) \/ Read(d) \/ Check(d) \/ Complete(d) \/ Refused(d) \/ Log(d) \/ Killed(d) \/ Release(d)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------------
Claimed == IF IsOpen(consumer.claim) THEN consumer.rows ELSE {}

(* A message waits, is in the open claim, or has taken effect: one of these, and that once. *)
EachTakesEffectOnce ==
    \A m \in Messages : effects[m] = IF m \in queue \cup Claimed THEN 0 ELSE 1

(* What a driver is about to do its work with is all of the claim that it will settle. *)
NobodySettlesWhatItHasNotSeen ==
    \A d \in Drivers : driver[d].step = "ready" /\ IsCurrent(d) /\ IsOpen(driver[d].claim) => driver[d].rows = consumer.rows
====
