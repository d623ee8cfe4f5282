"""AMQP 1.0 without I/O: types, frames, performatives and the sections of a message."""
