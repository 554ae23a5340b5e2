"""Reads functions and what they call from Rust and C, without a parser: enough to follow a document."""

import re

COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def bare(source):
    """The source with comments and strings replaced by spaces; line numbers stay."""
    return COMMENT_OR_TEXT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), source)


def block(source, start):
    """The text between the first brace from `start` on and its closing brace; None if a `;` comes first that is not in an array's type."""
    opening = re.compile(r"(?:\[[^][{}]*\]|[^{;[])*([{;])").match(source, start)
    if not opening or opening[1] == ";":
        return None
    depth = 0
    for brace in re.compile(r"[{}]").finditer(source, opening.start(1)):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return source[opening.end():brace.start()]
    return None


def bodies(source, name, language):
    """The bodies of all functions of this name; `Type::name` looks only into that type's impl blocks."""
    owner, _, function = name.rpartition("::")
    if language == "c":
        macro = rf"BPF_PROG\(\s*{function}\b[^{{;]*\)"
        return blocks(source, rf"^(?:[\w\s*]*\b{function}\([^{{;]*\)|int {macro})\s*(?={{)")
    found = rf"\bfn {function}\b"
    if not owner:
        return blocks(source, found)
    implementations = blocks(source, rf"^(?:impl|pub trait|trait)\b[^{{;]*\b{owner}\b[^{{;]*")
    return [body for inside in implementations for body in blocks(inside, found)]


def blocks(source, pattern):
    starts = (found.end() for found in re.finditer(pattern, source, re.MULTILINE))
    return [body for body in (block(source, start) for start in starts) if body is not None]


def calls(body, name):
    """Where a function's body calls another one, by its name or as a method."""
    function = name.rpartition("::")[2]
    return [found.start() for found in re.finditer(rf"\b{function}(?:::<[^>]*>)?\(", body)]
