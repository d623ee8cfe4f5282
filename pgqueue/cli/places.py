"""Where each command is: its module, and its summary. Written by ``make generate`` from the commands."""

from __future__ import annotations

PLACES = {
    "demo": ("demonstration", "Show the whole of it, while consumers are being killed."),
    "migrate": ("migration", "Install or upgrade the schema in a database."),
    "queue": ("queues", "Create, look at, change and delete queues."),
    "send": ("sending", "Send a message, or a file of them."),
    "cancel": ("sending", "Cancel scheduled messages before their time comes."),
    "receive": ("receiving", "Receive messages, print them, and settle them."),
    "peek": ("receiving", "Look at messages without touching them."),
    "explain": ("receiving", "Explain why a message is delivered now, or not."),
    "unlock": ("receiving", "Take the lock of a message away from its holder."),
    "stats": ("stats", "Count what is in the queues."),
    "sessions": ("stats", "List sessions: who holds which, what waits."),
    "doctor": ("doctor", "Find problems of the queues and their database."),
    "dashboard": ("dashboard", "Show all of it in a browser, and repair it there."),
    "history": ("history", "Show what became of messages."),
    "dead-letters": ("dead_letters", "List, show, resubmit and purge dead letters."),
    "schedule": ("schedules", "Send messages again and again, by the clock."),
    "topic": ("topics", "Create, list and delete topics."),
    "subscription": ("topics", "Create, list, change and delete subscriptions."),
    "sweep": ("sweeping", "Tidy up all queues."),
    "bench": ("benching", "Measure what this server does."),
    "grant": ("access", "Let a database role use a queue, or all of them."),
    "revoke": ("access", "Take back what was granted."),
    "grants": ("access", "List which role may do what."),
    "worker": ("working", "Run handlers on messages until SIGTERM or SIGINT."),
    "spark": ("spark", "Move messages in bulk, with Spark."),
}
