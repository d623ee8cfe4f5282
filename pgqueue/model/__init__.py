"""The pure part: messages, the state machine of a delivery, settings and policies. No I/O and no clock."""
