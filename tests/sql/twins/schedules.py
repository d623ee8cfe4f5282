"""Each due time of a schedule gets one message, whichever session fires it, and late ones follow `catch_up`."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from tests.sql import test_misuse, test_schedules
from tests.sql.twins.twin import Twin

TWINS = [
    Twin(
        "_mend_schedules",
        "interval '1 hour'",
        "interval '1 minute'",
        test_schedules.test_a_clock_that_is_set_back_a_little_repeats_no_due_time,
    ),
    Twin(
        "_take_turn",
        "returned := returned + pgqueue._fire_schedules();",
        "",
        test_schedules.test_a_receiver_of_another_queue_fires_it_too,
    ),
    Twin(
        "_due_in",
        "(select min(fire_at) from pgqueue.schedule where queue_id = source.id)",
        "null",
        test_schedules.test_waiting_consumers_learn_of_a_schedule_that_is_due_before_they_poll,
    ),
    Twin(
        "_save_schedule",
        "perform pgqueue._notify_early(target, ahead[1] - pgqueue.clock());",
        "",
        test_schedules.test_waiting_consumers_learn_of_a_schedule_that_is_due_before_they_poll,
    ),
    Twin(
        "_fire_schedule",
        "or due_time > moment - interval '1 minute'",
        "",
        partial(
            test_schedules.test_missed_due_times_are_sent_according_to_catch_up,
            catch_up="none",
            late=timedelta(seconds=59),
            minutes=[60],
        ),
    ),
    Twin(
        "_fire_schedule",
        "or due_time > moment - interval '10 seconds'",
        "",
        partial(
            test_schedules.test_each_due_time_of_the_last_ten_seconds_is_in_time,
            catch_up="none",
            missed=0,
        ),
    ),
    Twin(
        "_fire_schedules",
        "when others then",
        "when sqlstate 'PQ005' then",
        test_schedules.test_a_refusal_is_kept_and_tried_again_and_the_other_schedules_go_on,
    ),
    Twin(
        "_fire_schedules",
        " and pgqueue._is_sequence_behind()",
        "",
        partial(test_misuse.test_an_error_while_a_schedule_fires_is_recorded, state="23505"),
    ),
    Twin(
        "_fire_schedules",
        "if sqlstate = '23505'",
        "if false",
        test_misuse.test_an_error_of_the_sequence_while_a_schedule_fires_is_repaired,
    ),
    Twin(
        "_fire_schedules",
        "exit when not pgqueue._keep_firing_error",
        "perform pgqueue._keep_firing_error",
        test_misuse.test_a_schedule_that_cannot_be_updated_stops_no_receive,
    ),
    Twin(
        "pause_schedule",
        ", fire_at = null",
        "",
        test_schedules.test_a_pause_skips_the_due_times_of_it,
    ),
    Twin(
        "resume_schedule",
        "greatest(known.passed_until, pgqueue.clock())",
        "known.passed_until",
        test_schedules.test_a_pause_skips_the_due_times_of_it,
    ),
    Twin(
        "create_schedule",
        "make_interval(secs => extract(epoch from every)::double precision)",
        "every",
        test_schedules.test_a_day_of_an_interval_has_24_hours_whatever_the_time_zone_of_the_session,
    ),
]
