"""Which document a row is for: one right below the path that the write was given.

Rows that were read from a factory carry its links. Were those followed, a write to one factory
would change another, and an overwrite would empty the one and fill the other. So the path wins:
what names another place is refused, unless the option `foreignLinks` says what is meant by it.
"""

from docstore.pipeline.options import Options

REFUSE, MOVE, FOLLOW = FOREIGN_LINKS = ("refuse", "move", "follow")
"""refuse such a row; move it: its own id, below the path; follow its link, wherever that leads.

An id with a slash is no link of elsewhere, and is never cut: two ids would become one.
"""


class Addresses:
    """Turns ids and links into links, by the rule of the options."""

    def __init__(self, options: Options) -> None:
        """Raises ValueError."""
        self._path = options.path
        self._foreign = options.choice("foreignLinks", FOREIGN_LINKS)

    def of(self, text: str) -> tuple[str, str]:
        """Return the link that an id or a link stands for, and why it is refused, "" if not."""
        link = text if text.startswith("/") else f"{self._path}/{text}"
        above, _, name = link.rpartition("/")
        if (above == self._path and name) or self._foreign == FOLLOW:
            return link, ""
        if self._foreign == MOVE and text.startswith("/") and name:
            return f"{self._path}/{name}", ""
        if not text.startswith("/"):
            return link, (
                f"{text} is an id with a slash, and no document of {self._path} has one: write"
                " another character for it, such as ~; foreignLinks is for links that begin with /"
            )
        return link, (
            f"{text} is no document of {self._path}, the path of this write;"
            " foreignLinks=move writes it there under its own id, follow where its link leads"
        )
