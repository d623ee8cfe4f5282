"""The checks, by theme. Queries read the facts; judges do no I/O, and take each row as a named tuple."""
