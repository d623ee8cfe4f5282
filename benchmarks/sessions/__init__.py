"""Sessions: accepting the next one, and how much is worked off, beside a plain queue."""
