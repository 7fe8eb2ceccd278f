"""Named snapshots: documents with a cut, whose rows nodes keep."""

from docstore.errors import BadRequest
from docstore.model.service import Malformed, ServiceOptions, State
from docstore.model.settings import quoted
from docstore.query.cut import unpack_cut
from docstore.services.declared import DeclaredService


class SnapshotService(DeclaredService):
    """The service of snapshots. It refuses a malformed cut, since no rows would be kept for it."""

    def __init__(self, path: str) -> None:
        super().__init__(ServiceOptions(path=path, kind="docstore:Snapshot"))
        self.checks = True

    def check(self, state: State) -> None:
        cut = state.get("cut")
        if not isinstance(cut, str):
            raise Malformed(
                f"`cut` must be the token of a cut, from /core/spark/plan; got {quoted(cut)}"
            )
        try:
            unpack_cut(cut)
        except BadRequest as error:
            raise Malformed(f"cut: {error}") from None
