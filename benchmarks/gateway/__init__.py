"""The gateway beside the library: what the wire costs."""
