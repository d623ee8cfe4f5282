"""Classes, functions, settings and errors of Python, from their signatures and docstrings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import griffe

from docs.generate.text import ROOT, code, markdown, table

#: Modules whose ``__all__`` is public, where a class is looked for by its name alone.
EXPORTING = ["public", "notifications", "spark", "spark.pipelines", "spark.report"]

KEYWORD_ONLY = griffe.ParameterKind.keyword_only
STARS = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}


@cache
def package() -> griffe.Module:
    loaded = griffe.load("pgqueue", search_paths=[ROOT], docstring_parser="google")
    assert isinstance(loaded, griffe.Module)
    return loaded


@cache
def exported() -> dict[str, griffe.Object]:
    """The public names; one that two modules export belongs to the first, and to the other by its full name."""
    found: dict[str, griffe.Object] = {}
    for path in EXPORTING:
        module = package()[path]
        for name in module.exports:
            member = module[str(name)]
            if not member.is_module:
                found.setdefault(str(name), _target(member))
    return found


def _named(name: str) -> griffe.Object:
    """A public name, or one with its module: ``spark.report.report``."""
    return exported()[name] if name in exported() else _target(package()[name])


def _target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    return member.final_target if isinstance(member, griffe.Alias) else member


def class_sections(*names: str) -> str:
    """Several classes, under a heading each."""
    return "\n\n".join(f"### {name.removesuffix('()')}\n\n{class_section(name)}" for name in names)


def class_section(name: str) -> str:
    """The purpose of a class, its fields, its properties and methods. ``Name()`` shows how it is made, too."""
    kind = _named(name.removesuffix("()"))
    assert isinstance(kind, griffe.Class)
    parts = [f"`{_signature(kind, kind.parameters)}`"] if name.endswith("()") else []
    parts += [*_paragraphs(kind), *_raises(kind)]
    members = dict(_members(kind))
    fields = [name for name, member in members.items() if member.is_attribute and not member.docstring]
    if fields:
        parts.append(f"{'One of' if all(field.isupper() for field in fields) else 'Fields:'} {code(fields)}.")
    parts += [f"It has all that a `{base.name}` has, too." for base in kind.mro() if base in exported().values()][:1]
    rows = [_row(member) for name, member in members.items() if name not in fields]
    if rows:
        parts.append(table(["", ""], rows))
    return "\n\n".join(parts)


def _members(kind: griffe.Class) -> Iterator[tuple[str, griffe.Object]]:
    """Its public members, and those that it has from a base that is not public itself."""
    hidden = [base for base in kind.mro() if base not in exported().values()]
    for each in [*reversed(hidden), kind]:
        for name, member in each.members.items():
            if not name.startswith("_"):
                yield name, _target(member)


def functions(*names: str) -> str:
    return table(["", ""], (_row(_named(name)) for name in names))


def _row(member: griffe.Object) -> list[str]:
    shown = member.name
    if isinstance(member, griffe.Function):
        shown = _signature(member, member.parameters)
    elif isinstance(member, griffe.Attribute) and "property" in member.labels:
        shown = f"{member.name}: {member.annotation}"
    return [f"`{shown}`", " ".join([*_paragraphs(member), *_raises(member)])]


def _signature(owner: griffe.Class | griffe.Function, parameters: griffe.Parameters) -> str:
    shown: list[str] = []
    for parameter in parameters:
        if parameter.name in {"self", "cls"} or parameter.name.startswith("_"):
            continue
        if parameter.kind is KEYWORD_ONLY and not any(each.startswith("*") for each in shown):
            shown.append("*")
        shown.append(_parameter(parameter))
    answer = ""
    if isinstance(owner, griffe.Function) and str(owner.returns) != "None" and not _is_context_manager(owner):
        answer = f" -> {owner.returns}"
    return f"{owner.name}({', '.join(shown)}){answer}"


def _parameter(parameter: griffe.Parameter) -> str:
    """A parameter with its default; the name of a constant would not help."""
    if parameter.kind in STARS:
        return f"{STARS[parameter.kind]}{parameter.name}"
    if parameter.default is None:
        return parameter.name
    default = str(parameter.default)
    return f"{parameter.name}={'…' if default.isupper() else default}"


def _is_context_manager(function: griffe.Function) -> bool:
    return any("contextmanager" in str(each.value) for each in function.decorators)


def _paragraphs(documented: griffe.Object) -> list[str]:
    """The text of a docstring, but for its sections and for examples."""
    text = "\n\n".join(section.value for section in _sections(documented, griffe.DocstringSectionKind.text))
    return [markdown(paragraph) for paragraph in text.split("\n\n") if not paragraph.startswith(">>>")]


def _raises(function: griffe.Object) -> Iterator[str]:
    """The errors with when they are raised; ours without their modules."""
    for section in _sections(function, griffe.DocstringSectionKind.raises):
        errors = [f"`{_outside(each.annotation)}`: {markdown(each.description)}" for each in section.value]
        yield f"Raises {'; '.join(error.removesuffix('.') for error in errors)}."


def _outside(error: object) -> str:
    return re.sub(r"^pgqueue\.(\w+\.)*", "", str(error))


def _sections(documented: griffe.Object, kind: griffe.DocstringSectionKind) -> list[griffe.DocstringSection]:
    sections = documented.docstring.parsed if documented.docstring else []
    return [section for section in sections if section.kind is kind]


def settings() -> str:
    """The settings of a queue, and whether there may be none."""
    given, shown = _named("QueueSettings"), _named("QueueProperties")
    return table(
        ["setting", "may be None", ""],
        (
            [
                f"`{name}`",
                "yes" if str(shown[name].annotation).endswith(("None", "Any")) else "",
                *_paragraphs(_target(setting)),
            ]
            for name, setting in given.members.items()
        ),
    )


def errors(module: str, *others: str) -> str:
    """The errors of a module, and others, with the SQLSTATEs they have of their own."""
    kinds: list[griffe.Object] = [each for each in package()[module].members.values() if isinstance(each, griffe.Class)]
    kinds += [_named(name) for name in others]
    rows = [[f"`{kind.name}`", *_marks(kind), " ".join(_paragraphs(kind))] for kind in kinds]
    if not any(row[1] or row[2] for row in rows):
        return table(["", ""], ([name, text] for name, _, _, text in rows))
    return table(["", "SQLSTATE", "transient", "true now"], rows)


def _marks(kind: griffe.Object) -> list[str]:
    sqlstate, transient = (_assigned(kind, name) for name in ("default_sqlstate", "is_transient"))
    return ["" if sqlstate == "None" else sqlstate.strip("'\""), "yes" if transient == "True" else ""]


def _assigned(kind: griffe.Object, name: str) -> str:
    """The value of a name in a class, as it is written there."""
    member = kind.members.get(name)
    return str(member.value) if isinstance(member, griffe.Attribute) else ""
