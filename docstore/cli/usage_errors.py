"""The line that a mistake gets: what was typed, what is accepted, and what to do next."""

import re
from typing import Any

from docstore.cli.examples import EXAMPLES
from docstore.model.words import nearest

DECLARE = (
    'declare it with: docstore post /core/factories \'{{"path": "{it}"}}\'; `docstore ls` lists'
    " those that are declared"
)
CHANGED = (
    "the document is another version by now: read it with `docstore get`, and repeat the command"
    " with --if-match EPOCH.VERSION of what you read"
)
ADVICE = (
    (401, "", "give a token with --token-file or DOCSTORE_TOKEN"),
    (403, "", "`docstore access check USER METHOD PATH` says what a user may do"),
    (404, r"there is no factory (?:at )?(?P<it>/\S*)", DECLARE),
    (404, r"there is no factory or document at (?P<it>/\S+)/[^/]*$", DECLARE),
    (404, "there is nothing at /core/access/users/",
     "that node has no such user, or no access file, or your token is not an administrator's"),
    (404, r"there is no topic (?P<it>.+)",
     "create it with `docstore topic create {it}`, or see `docstore topic list`"),
    (404, r"there is nothing at /core/(?P<it>group|role|lock|election|subscription)s/",
     "`docstore {it} list` lists those that exist"),
    (404, r"there is no (?:such )?lease", "`docstore lease list` lists those that exist"),
    (404, r"there is nothing at (?P<it>/\S+)\?", "`docstore history {it}` lists its versions"),
    (404, r"there is nothing at (?P<it>/\S+)/[^/]*$", "`docstore ls {it}` lists what is there"),
    (404, "is not a member", "`docstore status` lists them"),
    (400, r"no parameter '\$limit' here", "give a factory; `docstore get` shows one document"),
    (405, r"^405 POST ", "post to a factory, such as /films; put or patch a document, /films/1"),
    (405, r"^405 (?:PUT|PATCH|DELETE) ",
     "name a document, such as /films/1; a factory is declared and deleted at /core/factories"),
    (412, "", CHANGED),
    (503, "", "`docstore doctor` says what is wrong with the group"),
)  # fmt: skip
"""Status, pattern of the message, and what to do; the first that fits counts."""


def advised(status: int, message: str) -> str:
    """Return the message of a failure with what to do about it, if that is known."""
    for known, pattern, advice in ADVICE:
        found = re.search(pattern, message) if status == known else None
        if found is not None:
            return f"{message}; {advice.format_map(found.groupdict())}"
    return message


def line_of(error: Any) -> str:
    """Return the line for wrong usage; "" if the help was printed instead."""
    kind, context = type(error).__name__, error.ctx
    path = context.command_path if context is not None else "docstore"
    message = " ".join(error.format_message().split()).removesuffix(".")
    if not message:
        return ""
    message = f"{message[0].lower()}{message[1:]}"
    if kind == "NoSuchOption":
        known = [each for parameter in context.command.params for each in parameter.opts]
        message = f"{path} has no option {error.option_name}; {nearest(error.option_name, known)}"
    elif kind == "MissingParameter" and (example := _example(path)):
        message = f"{message}; for example: {example}"
    elif message.startswith("got unexpected extra"):
        takes = " ".join(context.command.collect_usage_pieces(context))
        message = f"{message}; {path} takes: {takes}"
    message = message.rstrip("; ")
    return f"docstore: {message}{'' if message.endswith('?') else ';'} see {path} --help\n"


def _example(path: str) -> str:
    return next(iter(EXAMPLES.get(path.removeprefix("docstore "), ())), "")
