"""Find English that the project does not write: ``python .ci/prose.py [PATH ...]`` prints it, and then fails.

Three rules, for docstrings, comments, help, log lines, errors, texts in SQL, pages written by hand and names of tests:

- *Turned sentences* begin with a relative clause as their subject ("What cannot be read stays"): begin with the noun.
- *Speech*: programs do not say or tell; they return, print, log, report, state.
- *Private words* have a usual English word beside them.

Questions, and quotations in double quotes or backticks, are left alone.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = (
    "pgqueue",
    "sql",
    "docs",
    "tests",
    "benchmarks",
    "models",
    "examples",
    "deploy",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
#: Pages that are written from others as a whole, and the test of this program.
EXCLUDED = {"docs/reference.md", "sql/README.md", "tests/docs/test_prose.py"}

TURNED = re.compile(r"(?:who|whoever|whose|what|whatever|nobody)\b(?!\s+if\b)(?!.*\?$)", re.IGNORECASE | re.DOTALL)
SPEECH = re.compile(r"\b(?:told|tells?|telling|says?|said|saying)\b", re.IGNORECASE)
PRIVATE = {
    "nobody": "no one, or name what does not",
    "somebody": "someone, or name it",
    "whoever": "the caller, the receiver …",
    "mend": "repair, fix",
    "mends": "repairs, fixes",
    "mended": "repaired, fixed",
    "mending": "repairing, fixing",
    "anew": "again",
    "to be had": "available",
    "be had": "be obtained",
    "rests for": "is redelivered in",
    "taken apart": "retried one by one",
    "takes apart": "retries one by one",
    "luck": "jitter",
    "let go": "left locked",
    "is let": "may",
    "knock": "probe",
    "appetite": "demand",
    "last words": "last report",
    "bury": "remove",
    "keeps quiet": "prints nothing",
}
WORDS = re.compile(rf"(?<!\bas )\b(?:{'|'.join(PRIVATE)})\b", re.IGNORECASE)

SENTENCE = re.compile(r"(?:[^\n.!?:;]|[.!?:;](?!\s+[A-Z])|\n(?!\s*\n|\s*[-*|] ))+[.!?:;]?")
SQL = re.compile(r"\s*(?:select|with|insert|update|delete|create|declare|lock|do|set)\b.*\n", re.DOTALL)
QUOTED = re.compile(r"``[^`]*``|`[^`]*`|(?<![\w\"])\"[^\"\n]*\"(?!\")|“[^”]*”")
GENERATED = re.compile(r"<!-- (?:generated|begin)\b.*?<!-- end -->|```.*?```", re.DOTALL)


@dataclass(frozen=True)
class Finding:
    """A sentence and the rule that it breaks."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.rule}: {' '.join(self.text.split())[:110]}"


def main(arguments: list[str]) -> int:
    found = [finding for path in paths(arguments or PLACES) for finding in findings(path)]
    print(*found, f"{len(found)} findings", sep="\n")
    return 1 if found else 0


def paths(names: list[str] | tuple[str, ...]) -> Iterator[Path]:
    for name in names:
        path = ROOT / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in files if file.suffix in READERS and str(file.relative_to(ROOT)) not in EXCLUDED)


def findings(path: Path) -> Iterator[Finding]:
    for line, text in READERS[path.suffix](path.read_text()):
        for offset, sentence in sentences(text):
            for rule in broken(sentence):
                yield Finding(path, line + text.count("\n", 0, offset), rule, text[offset : offset + len(sentence)])


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence of a text with its offset; quotations are blanked, newlines in them stay."""
    blanked = QUOTED.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), text)
    for found in SENTENCE.finditer(blanked):
        stripped = found[0].lstrip(" \t\n*#|-")
        if stripped:
            yield found.end() - len(stripped), stripped.rstrip()


def broken(sentence: str) -> Iterator[str]:
    """The rules that a sentence breaks."""
    if TURNED.match(sentence):
        yield "turned"
    if found := SPEECH.search(sentence):
        yield f"speech ({found[0]})"
    if found := WORDS.search(sentence):
        yield f"private ({found[0]}: {PRIVATE[found[0].lower()]})"


def of_python(text: str) -> Iterator[tuple[int, str]]:
    """Strings of more than two words, blocks of comments, and names of tests as sentences."""
    tree = ast.parse(text)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "_" for part in node.values),
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and len(node.value.split()) > 2
            and id(node) not in parts
        ):
            yield from of_text(node.lineno, node.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.removeprefix("test_").replace("_", " ")
    yield from comments(text)


def of_text(line: int, text: str) -> Iterator[tuple[int, str]]:
    """A string of Python: of a statement in SQL, its comments and strings."""
    if SQL.match(text):
        yield from ((line + number - 1, part) for number, part in of_sql(text))
    else:
        yield line, text


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments; those on consecutive lines are one text."""
    first, lines = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if lines and token.start[0] != first + len(lines):
                yield first, "\n".join(lines)
                lines = []
            first = first if lines else token.start[0]
            lines.append(token.string.lstrip("#: "))
    if lines:
        yield first, "\n".join(lines)


def of_markdown(text: str) -> Iterator[tuple[int, str]]:
    yield 1, GENERATED.sub(lambda found: "\n" * found[0].count("\n"), text)


def of_sql(text: str) -> Iterator[tuple[int, str]]:
    """Blocks of comments, and strings of more than two words."""
    for found in re.finditer(r"(?:^[ \t]*--.*\n)+|--.*", text, re.MULTILINE):
        yield text.count("\n", 0, found.start()) + 1, re.sub(r"^\s*--", "", found[0], flags=re.MULTILINE)
    code = re.sub(r"--.*", "", text)
    for found in re.finditer(r"'((?:[^']|'')*)'", code):
        if len(found[1].split()) > 2:
            yield code.count("\n", 0, found.start()) + 1, found[1]


READERS = {".py": of_python, ".md": of_markdown, ".sql": of_sql}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
