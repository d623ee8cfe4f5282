"""The checks, by theme. Queries find; judges do no I/O, and take each row as a named tuple."""
