"""No verb waits for a row that another session holds."""

from __future__ import annotations

from functools import partial

from tests.sql import (
    test_ageing,
    test_claims,
    test_cursors,
    test_dead_letter_queue,
    test_deferring,
    test_due_times,
    test_duplicates,
    test_effects,
    test_expiring,
    test_explaining,
    test_forwarding,
    test_fronts,
    test_idle,
    test_locks,
    test_races,
    test_results,
    test_schedules,
    test_staging,
    test_sweep,
    test_topic_settings,
    test_workers,
)
from tests.sql.twins.tokens import FRESH, RETURNED
from tests.sql.twins.twin import Twin

UNLOCKS = """from pgqueue.{table}
          where ctid = place and sequence_number = unlock.sequence_number and lock_token is not null
            for update{skip};"""

TWINS = [
    Twin(
        "_raise_waiting",
        "turn = old.turn\n           for update skip locked",
        "turn = old.turn\n           for update",
        test_ageing.test_two_turns_do_not_wait_for_each_other,
    ),
    Twin(
        "_raise_waiting",
        "limit 100\n               for update skip locked",
        "limit 100\n               for update",
        test_ageing.test_a_turn_does_not_wait_for_a_message_that_is_being_received,
    ),
    Twin("plan_schedule", " skip locked", "", test_schedules.test_a_plan_does_not_wait_for_a_firing),
    Twin(
        "_discard_abandoned",
        " skip locked",
        "",
        test_staging.test_a_sweep_does_not_wait_for_an_old_table_that_is_being_published,
    ),
    Twin("_fire_schedules", " skip locked", "", test_schedules.test_it_is_fired_once_by_two_at_the_same_time),
    Twin("_mend_schedules", " skip locked", "", test_schedules.test_repairing_schedules_does_not_wait_for_a_firing),
    Twin("heartbeat", " skip locked", "", test_workers.test_a_heartbeat_does_not_wait_for_locks),
    Twin(
        "_forget_workers",
        " skip locked",
        "",
        test_workers.test_forgetting_workers_does_not_wait_for_any_of_them,
    ),
    Twin("_forward_waiting", " skip locked", "", test_forwarding.test_a_message_that_a_transaction_holds_is_skipped),
    Twin(
        "_forward_sent", " skip locked", "", test_forwarding.test_a_sender_does_not_wait_for_messages_that_others_hold
    ),
    Twin("_use", " skip locked", "", test_idle.test_uses_do_not_wait_for_each_other),
    Twin(
        "_delete_idle",
        "source.auto_delete_on_idle for update skip locked",
        "source.auto_delete_on_idle for update",
        test_idle.test_a_sweep_does_not_wait_for_a_change_of_the_queue,
    ),
    Twin(
        "_delete_idle",
        "\n        for update skip locked",
        "\n        for update",
        test_idle.test_a_queue_is_kept_while_a_transaction_that_has_sent_to_it_is_open,
    ),
    Twin("receive", " skip locked", "", test_races.test_two_receivers_never_get_the_same_message),
    Twin(
        "_lock_unheld", " skip locked", "", test_races.test_a_renewal_does_not_wait_for_the_completion_that_is_under_way
    ),
    *(
        Twin(verb, " skip locked", "", test_locks.test_a_renewal_does_not_wait_for_an_open_transaction)
        for verb in ("renew_lock", "renew_lock_batch")
    ),
    Twin(
        "resolve",
        " skip locked",
        "",
        test_dead_letter_queue.test_a_settlement_without_a_known_transaction_is_resolved_by_the_dead_letter,
    ),
    *(
        Twin(
            "unlock",
            UNLOCKS.format(table=table, skip=" skip locked"),
            UNLOCKS.format(table=table, skip=""),
            caught_by,
        )
        for table, caught_by in (
            ("message", test_explaining.test_unlocking_does_not_wait_for_the_transaction_that_holds_a_message),
            ("dead_letter", test_explaining.test_unlocking_does_not_wait_for_the_transaction_that_holds_a_dead_letter),
        )
    ),
    Twin(
        "_advance_cursors",
        " skip locked) as held",
        ") as held",
        test_races.test_a_turn_is_taken_by_one_session_at_a_time,
    ),
    Twin(
        "_advance_cursors",
        " skip locked),",
        "),",
        test_cursors.test_a_claim_that_is_rolled_back_behind_the_cursors_of_others_is_found,
    ),
    Twin(
        "_redeliver_watched",
        "for update skip locked",
        "for update",
        test_races.test_two_sessions_that_return_expired_messages_do_not_wait_for_each_other,
    ),
    Twin(
        "_redeliver_watched",
        "for update of message skip locked",
        "for update of message",
        test_races.test_a_watching_session_skips_a_message_that_is_being_completed,
    ),
    Twin(
        "_activate_scheduled",
        " skip locked",
        "",
        test_races.test_two_sessions_that_activate_messages_do_not_wait_for_each_other,
    ),
    Twin(
        "purge_queue",
        "source.id for update skip locked",
        "source.id for update",
        test_races.test_a_purge_skips_messages_being_completed,
    ),
    Twin(
        "purge_queue",
        "limit 1\n                      for update skip locked",
        "limit 1\n                      for update",
        test_races.test_a_bounded_purge_skips_messages_being_completed,
    ),
    Twin(
        "_pass_due_times",
        " skip locked",
        "",
        test_due_times.test_two_turns_that_pass_due_times_do_not_wait_for_each_other,
    ),
    Twin(
        "purge_queue",
        "limit max_messages - purged\n           for update skip locked",
        "limit max_messages - purged\n           for update",
        test_races.test_a_purge_skips_messages_being_activated,
    ),
    Twin(
        "_repair_watch",
        " skip locked",
        "",
        test_sweep.test_a_sweep_does_not_wait_for_a_turn_that_looks_at_what_was_overlooked,
    ),
    Twin("_remove_orphans", " skip locked", "", test_sweep.test_a_sweep_skips_orphans_that_are_locked),
    Twin("_sweep_queue", " skip locked", "", test_sweep.test_a_completion_that_is_under_way_is_skipped),
    Twin(
        "_subscribe",
        " skip locked",
        "",
        test_races.test_a_consumer_that_starts_to_wait_is_not_blocked_by_a_change_of_the_queue,
    ),
    Twin("_pass_front", " skip locked", "", test_fronts.test_two_sessions_that_move_a_front_do_not_wait_for_each_other),
    Twin("_sweep_fronts", " skip locked", "", test_fronts.test_a_sweep_does_not_wait_for_who_moves_a_front),
    Twin(
        "_refuse_old_snapshot",
        "position = _refuse_old_snapshot.sequence_number\n            for update skip locked",
        "position = _refuse_old_snapshot.sequence_number\n            for update",
        partial(test_races.test_a_lost_lock_is_called_lost_while_its_next_holder_completes, came_back=False),
    ),
    Twin(
        "_refuse_old_snapshot",
        "lane % 2 = 0 and sequence_number = _refuse_old_snapshot.sequence_number\n            for update skip locked",
        "lane % 2 = 0 and sequence_number = _refuse_old_snapshot.sequence_number\n            for update",
        partial(test_races.test_a_lost_lock_is_called_lost_while_its_next_holder_completes, came_back=True),
    ),
    Twin(
        "_refuse_old_snapshot",
        "where queue_id = queue.id and sequence_number = _refuse_old_snapshot.sequence_number\n"
        "            for update skip locked",
        "where queue_id = queue.id and sequence_number = _refuse_old_snapshot.sequence_number\n            for update",
        test_dead_letter_queue.test_a_lost_lock_is_called_lost_while_its_next_holder_completes,
    ),
    Twin(
        "_lock_claim",
        f"{FRESH} skip locked",
        FRESH,
        test_claims.test_locks_are_renewed_and_those_of_an_open_transaction_are_not_waited_for,
    ),
    Twin(
        "_lock_claim",
        f"{RETURNED} skip locked",
        RETURNED,
        test_claims.test_a_renewal_does_not_wait_for_returned_messages_that_an_open_transaction_holds,
    ),
    Twin(
        "discard_staged",
        " skip locked",
        "",
        test_staging.test_a_sweep_does_not_wait_for_tables_that_are_being_published,
    ),
    Twin(
        "_delete_old_records",
        "limit max_records - ids - effects\n                  for update skip locked",
        "limit max_records - ids - effects\n                  for update",
        test_staging.test_a_sweep_skips_a_part_that_is_locked,
    ),
    Twin(
        "_delete_old_records",
        "limit max_records - ids - effects - batches\n                  for update skip locked",
        "limit max_records - ids - effects - batches\n                  for update",
        test_results.test_a_sweep_skips_an_outcome_that_is_written_again,
    ),
    Twin(
        "_delete_old_records",
        "limit max_records - ids - effects - batches - ended\n                  for update skip locked",
        "limit max_records - ids - effects - batches - ended",
        test_results.test_a_sweep_skips_a_subscription_of_a_queue_that_is_dropped,
    ),
    Twin(
        "_forget_on_topics",
        "limit max_records\n                         for update skip locked",
        "limit max_records",
        test_topic_settings.test_a_sweep_skips_an_id_that_is_being_sent_again,
    ),
    Twin(
        "_forget_on_topics",
        "limit max_records\n                  for update skip locked",
        "limit max_records",
        test_topic_settings.test_a_sweep_skips_a_message_that_is_being_cancelled,
    ),
    Twin("_expire_due", " skip locked", "", test_expiring.test_a_sweep_skips_what_a_receiver_is_removing),
    Twin(
        "_delete_old_records",
        "limit max_records\n                  for update skip locked",
        "limit max_records\n                  for update",
        test_duplicates.test_a_sweep_skips_an_id_that_is_being_sent_again,
    ),
    Twin(
        "_delete_old_records",
        "limit max_records - ids\n                  for update skip locked",
        "limit max_records - ids\n                  for update",
        test_effects.test_a_sweep_skips_an_effect_that_is_being_recorded_again,
    ),
    Twin(
        "_lock_dead_letters",
        " skip locked",
        "",
        test_dead_letter_queue.test_a_renewal_does_not_wait_for_the_completion_that_is_under_way,
    ),
    Twin(
        "_lock_dead_letters_to_move",
        " skip locked",
        "",
        test_dead_letter_queue.test_a_purge_and_a_resubmission_skip_each_other,
    ),
    Twin(
        "receive_dead_letters",
        " skip locked",
        "",
        test_dead_letter_queue.test_two_receivers_never_get_the_same_dead_letter,
    ),
    Twin(
        "receive_deferred",
        " skip locked",
        "",
        test_deferring.test_a_locked_deferred_message_is_not_received_and_not_waited_for,
    ),
]
