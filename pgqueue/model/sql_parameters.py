"""Parameters of SQL filters, written into their SQL as literals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Any, Final
from uuid import UUID

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import shown

#: Literals and quoted names, in which an @ begins no parameter; and parameters.
PARTS: Final = re.compile(r"""'(?:[^']|'')*'|\[(?:[^\]]|\]\])*\]|"[^"]*"|@(\w+)""")


def with_parameters(sql: str, parameters: Mapping[str, Any]) -> str:
    """The SQL with a literal in place of each ``@name``. The names of parameters may begin with ``@``, too."""
    if not isinstance(parameters, Mapping):
        raise InvalidArgumentError(f"the parameters of an SQL filter must be a mapping, not {shown(parameters)}")
    values = {str(name).removeprefix("@"): value for name, value in parameters.items()}

    def replaced(part: re.Match[str]) -> str:
        name = part[1]
        if name is None:
            return part[0]
        if name not in values:
            raise InvalidArgumentError(
                f"the parameter @{name} of an SQL filter has no value: SqlFilter({sql!r}, {{{name!r}: …}})"
            )
        return _literal(name, values[name])

    return PARTS.sub(replaced, sql)


def _literal(name: str, value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float() | Decimal() if _fits_float(value):
            return f"({value})" if value < 0 else str(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            return f"'{value.isoformat()}'"
        case UUID():
            return f"'{value}'"
    raise InvalidArgumentError(
        f"the parameter @{name} of an SQL filter must be a text, a finite number, a truth value, a datetime or a UUID, "
        f"not {shown(value)}"
    )


def _fits_float(number: float | Decimal) -> bool:
    """Whether it is within the range of a float."""
    try:
        return isfinite(number)
    except (OverflowError, ValueError):  # a signalling NaN
        return False
