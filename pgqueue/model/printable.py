"""Text from messages, for terminals and pages."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text that controls neither a terminal nor the direction of writing: what is not printable is escaped."""
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1] for character in text
    )


def printable_json(text: str) -> str:
    """The same JSON, with what is not printable escaped as JSON has it: it can stand only within strings."""
    return "".join(
        character if character.isprintable() or character == "\n" else _as_json_has_it(character) for character in text
    )


def _as_json_has_it(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
