"""The pure part: messages, the state machine of a delivery, settings, policies. No I/O and no clock."""
