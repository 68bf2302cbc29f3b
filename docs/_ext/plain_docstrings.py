"""Docstrings here write mathematics as plain text; this keeps reStructuredText from reading it as markup.

Outside literals a bar, a star or a trailing underscore is literal text. An indented block of a module's docstring is
shown verbatim: it holds equations or a table.
"""

import re

LITERAL = re.compile(r"(``.*?``|:[a-z:]+:`[^`]*`|`[^`]*`)")
FIELD = re.compile(r"^\s*(:|\.\. |>>>|\.\.\. |[-=~]{3,}\s*$)")
SKIPPED = {"score", "set_output", "get_params", "set_params", "get_metadata_routing"}


def escape(line):
    """A line of prose with its plain-text marks made safe."""
    if FIELD.match(line):
        return line
    parts = LITERAL.split(line)
    for k in range(0, len(parts), 2):
        part = re.sub(r"([|*])", r"\\\1", parts[k])
        parts[k] = re.sub(r"(\w)_(?=\W|$)", r"\1\\_", part)
    return "".join(parts)


def plain(app, what, name, obj, options, lines):
    """Rewrite one docstring in place."""
    found, literal, blank = [], False, True
    in_list = False
    for line in lines:
        indented = line.startswith("    ")
        if literal and line.strip() and not indented:
            literal = False
        if what == "module" and indented and blank and not literal and not in_list:
            if not line.lstrip().startswith(">>>"):
                previous = next((text for text in reversed(found) if text.strip()), "")
                if not previous.endswith("::"):
                    found += ["::", ""]
            literal = True
        if line.strip() and not indented:
            in_list = bool(re.match(r"^([-*]|\d+\.)\s", line))
        keep = literal or (what != "module" and line.lstrip().startswith((">>>", "...")))
        found.append(line if keep else escape(line))
        blank = not line.strip()
    lines[:] = found


def skip(app, what, name, obj, skipped, options):
    """Omit members that scikit-learn adds to every estimator."""
    if name in SKIPPED or (name.startswith("set_") and name.endswith("_request")):
        return True
    return None


def setup(app):
    app.connect("autodoc-process-docstring", plain, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
