"""Which cut a relation reads: taken once, when Spark resolves it, so that one query sees one cut.

Spark asks a source for its schema exactly once for each relation, keeps the source, and makes the
readers of all its scans out of it: what `schema` has found is the same for both sides of a join of
a table with itself, and for all statements over a temporary view. Where Spark is told the columns
(`.schema(...)`, a view with columns) it does not ask. Then each scan may make a source of its own,
and nothing says which of them belong to one query: such a relation has to be given its cut.
"""

from docstore.pipeline.options import Options
from docstore.query.cut import is_token

MOVING = ("", "latest", "barrier", "earliest")
"""What stands for another cut each time it is asked."""


def pinned(options: Options) -> Options:
    """Return the options with a token in the place of what stands for a cut.

    Raises GroupError, OSError.
    """
    as_of = options.text("asOf", "latest")
    if is_token(as_of):
        return options
    return options.with_(asOf=str(options.group.plan(as_of, options.path)["cut"]))


def insist_on_cut(options: Options, *names: str) -> None:
    """Refuse options that stand for another cut in each scan. Raises ValueError."""
    for name in names:
        if options.text(name) in MOVING:
            raise ValueError(
                f"docstore: with .schema(...) each scan would read a cut of its own: give"
                f' option("{name}", ...) a token, a snapshot or a time; or name the members of'
                ' documents by option("members", "total double, note string") instead'
            )
