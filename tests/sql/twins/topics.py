"""A message of a topic goes to each subscription whose filter matches, and to no other."""

from __future__ import annotations

from functools import partial

from tests.sql import test_roles, test_topic_settings, test_topics
from tests.sql.stage import QUEUE_FULL
from tests.sql.twins.twin import Twin

TWINS = [
    Twin(
        "_matching_subscriptions",
        " and equals = has",
        "",
        test_topics.test_filters_with_the_same_hash_are_distinguished,
    ),
    Twin(
        "_matching_subscriptions",
        "and jsonb_hash_extended(equals, 0) = jsonb_hash_extended(has, 0) ",
        "",
        test_topics.test_a_message_is_looked_up_once_for_each_set_of_fields,
    ),
    Twin(
        "_matching_subscriptions",
        "coalesce(message.fields -> field,",
        "coalesce(properties -> field, message.fields -> field,",
        partial(test_topics.test_each_field_can_be_compared, field="subject"),
    ),
    Twin(
        "_matching_subscriptions",
        'order by name collate "C"',
        "order by name desc",
        test_topics.test_a_message_that_several_rules_match_is_stored_once_with_all_that_they_set,
    ),
    Twin(
        "_merge",
        " order by nth",
        " order by nth desc",
        test_topics.test_a_message_that_several_rules_match_is_stored_once_with_all_that_they_set,
    ),
    Twin(
        "_lock_subscription",
        "\n       for key share",
        "",
        test_topics.test_a_rule_of_a_subscription_that_is_being_dropped_is_refused,
    ),
    Twin(
        "alter_rule",
        "    if not found then\n        perform pgqueue._refuse_unknown_rule("
        "pgqueue._subscription_queue(topic, subscription), alter_rule.rule);\n    end if;\n",
        "",
        test_topics.test_a_subscription_without_rules_gets_nothing,
    ),
    Twin(
        "_satisfies",
        "undefined_object then\n    return false;",
        "undefined_object then\n    return true;",
        partial(
            test_topics.test_a_json_path_that_fails_does_not_match,
            path="$.body.a == 1 && $.body.b == $unknown",
            body={"a": 1, "b": 2},
            matches=False,
        ),
    ),
    Twin(
        "_takes_plain_messages",
        "(queue).max_queue_length, ",
        "",
        partial(
            test_topics.test_a_message_that_one_subscription_refuses_is_stored_in_none,
            settings={"max_queue_length": 1},
            sqlstate=QUEUE_FULL,
        ),
    ),
    Twin(
        "_takes_plain_messages",
        " and not (queue).requires_duplicate_detection",
        "",
        test_topics.test_each_subscription_has_its_own_settings,
    ),
    Twin(
        "_publish_to_topic",
        "    bodies := coalesce(bodies, array_fill(null::jsonb, array[size]));",
        "",
        test_topics.test_a_batch_of_bytes_alone_is_stored,
    ),
    Twin(
        "_publish_to_topic",
        "order by nth, queue_id) as ordered",
        "order by nth desc, queue_id) as ordered",
        test_topics.test_messages_keep_their_order_and_fields_in_each_subscription,
    ),
    Twin(
        "_publish_to_topic",
        "                   and coalesce(pg_column_size(properties), 0) <= 65536\n",
        "",
        partial(test_topics.test_properties_that_become_too_large_are_refused, settings={}),
    ),
    Twin(
        "_publish_to_topic",
        "continue when not found;",
        "",
        test_topics.test_a_send_that_meets_a_subscription_being_deleted_goes_to_the_others,
    ),
    Twin(
        "_publish_to_topic",
        "perform pgqueue._notify(target) from pgqueue.queue as target where id = any (awaited);",
        "",
        test_topics.test_waiting_consumers_of_each_subscription_are_woken,
    ),
    Twin(
        "_publish_to_topic",
        "not pgqueue._may_send(known.senders)",
        "false",
        partial(test_roles.a_role_may_do_what_it_was_granted, kind="stranger"),
    ),
    Twin(
        "create_topic",
        "    delete from pgqueue.queue where id = -new_id;\n",
        "",
        partial(
            test_topics.test_a_queue_and_a_topic_created_at_once_do_not_get_one_name,
            first="topic",
            second="queue",
            sqlstate=test_topics.TOPIC_EXISTS,
        ),
    ),
    Twin(
        "_publish_to_topic",
        "if known.status <> 'ACTIVE' then",
        "if false then",
        test_topic_settings.test_nothing_is_sent_to_a_topic_that_is_disabled,
    ),
    Twin(
        "_publish_to_topic",
        "least(target.default_message_time_to_live, known.default_message_time_to_live)",
        "target.default_message_time_to_live",
        test_topic_settings.test_a_message_expires_by_the_shortest_time_to_live,
    ),
    Twin(
        "_publish_to_topic",
        "if known.default_message_time_to_live is not null then",
        "if false then",
        test_topic_settings.test_a_message_expires_by_the_shortest_time_to_live,
    ),
    Twin(
        "_publish_to_topic",
        "         where known_as is null or known_as[nth] = drawn[nth]\n",
        "",
        test_topic_settings.test_a_duplicate_is_stored_in_no_subscription,
    ),
    Twin(
        "_publish_to_topic",
        "where count = 0 and (known_as is null or known_as[nth] = drawn[nth])",
        "where count = 0",
        test_topic_settings.test_a_duplicate_is_stored_in_no_subscription,
    ),
    Twin(
        "_publish_to_topic",
        "abs(copy)",
        "copy",
        partial(
            test_topic_settings.test_a_subscription_that_knows_a_message_already_cancels_the_earlier_one,
            given={"keys": ["a"]},
        ),
    ),
    Twin(
        "_publish_to_topic",
        "coalesce(known_as[nth], drawn[nth])",
        "drawn[nth]",
        test_topic_settings.test_a_scheduled_duplicate_has_the_number_of_the_first,
    ),
    Twin(
        "cancel_on_topic",
        "\n           and scheduled_enqueue_time > pgqueue.clock() ",
        "",
        test_topic_settings.test_a_message_that_no_subscription_takes_is_cancelled_too,
    ),
    Twin(
        "cancel_on_topic",
        "if cardinality(gone) < cardinality(held.copies) then",
        "if false then",
        partial(
            test_topic_settings.test_a_message_is_not_cancelled_if_a_subscription_no_longer_has_it_scheduled,
            fate="received",
        ),
    ),
    Twin(
        "cancel_on_topic",
        " and scheduled_enqueue_time > pgqueue.clock());",
        ");",
        partial(
            test_topic_settings.test_a_message_is_not_cancelled_if_a_subscription_no_longer_has_it_scheduled, fate="due"
        ),
    ),
    Twin(
        "cancel_on_topic",
        "array_agg(distinct copy)",
        "array_agg(copy)",
        partial(
            test_topic_settings.test_a_subscription_that_knows_a_message_already_cancels_the_earlier_one,
            given={"keys": ["a"]},
        ),
    ),
    Twin(
        "cancel_on_topic",
        "not pgqueue._may_send(known.senders)",
        "false",
        test_topic_settings.test_only_those_who_may_send_to_the_topic_cancel,
    ),
    Twin(
        "drop_topic",
        "        delete from pgqueue.sent_message_id where queue_id = -dropped;\n",
        "",
        test_topic_settings.test_a_topic_that_is_dropped_is_forgotten_with_its_ids,
    ),
    Twin(
        "drop_topic",
        "        delete from pgqueue.scheduled_on_topic where topic_id = dropped;\n",
        "",
        test_topic_settings.test_ids_and_numbers_are_forgotten_when_they_are_over,
    ),
    Twin(
        "drop_topic",
        "values (-dropped, topic,",
        "values (dropped, topic,",
        partial(test_topic_settings.test_a_topic_is_dropped_beside_a_sender_and_nothing_of_it_stays, first="send"),
    ),
    Twin(
        "_remove_orphans",
        ", 'scheduled_on_topic'",
        "",
        partial(test_topic_settings.test_a_topic_is_dropped_beside_a_sender_and_nothing_of_it_stays, first="drop"),
    ),
    Twin(
        "_remove_orphans",
        "               and not exists (select from pgqueue.topic where id = -dropped.queue_id)\n",
        "",
        test_topic_settings.test_a_restored_topic_keeps_its_records,
    ),
    Twin(
        "_forget_on_topics",
        "        perform pgqueue._record_sweep(topics, since);\n",
        "",
        test_topic_settings.test_a_sweep_does_not_read_again_what_died_of_topics,
    ),
    Twin(
        "_forget_on_topics",
        "where scheduled_enqueue_time between since and moment\n",
        "where scheduled_enqueue_time <= moment\n",
        test_topic_settings.test_a_sweep_does_not_read_again_what_died_of_topics,
    ),
    Twin(
        "_forget_on_topics",
        "\n                       where queue_id = -topic.id and sent_at >= since",
        "\n                       where queue_id = -topic.id and sent_at >= '-infinity'::timestamptz",
        test_topic_settings.test_a_sweep_does_not_read_again_what_died_of_topics,
    ),
    Twin(
        "_find_topic",
        " for key share",
        "",
        test_topics.test_a_topic_is_not_dropped_under_a_new_subscription,
    ),
    Twin(
        "_read_filter",
        "        perform jsonb_path_match('{}', filter.path);\n",
        "",
        partial(
            test_topics.test_an_invalid_filter_is_refused,
            verb="create_subscription",
            filter={"json_path_filter": "$.body.amount"},
            says="single boolean result",
        ),
    ),
    Twin(
        "_check_name",
        " ~* '/subscriptions/'",
        " ~ '/Subscriptions/'",
        partial(test_topics.test_only_a_subscription_is_named_as_one, kind="queue", names=["t/subscriptions/s"]),
    ),
    Twin(
        "_create_queue",
        "(-new_id, queue, pgqueue.clock())",
        "(-new_id, new_id::text, pgqueue.clock())",
        partial(test_topics.test_a_name_taken_since_the_snapshot_is_refused, first="topic", second="queue"),
    ),
]
