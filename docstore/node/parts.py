"""What a node has before it knows its group: a disk, links, and somebody to ask."""

from dataclasses import dataclass

from docstore.config import Config
from docstore.http.access import Access
from docstore.links.peers import PeerLinks
from docstore.links.rpc import Rpc
from docstore.members.founding import Founding
from docstore.members.joining import Joining
from docstore.members.lookup import Lookup
from docstore.members.membership import Membership
from docstore.services.registry import Registry
from docstore.storage.partitions import StreamsRecovered, StreamStore
from docstore.storage.store import Store
from docstore.subscriptions.calling import Caller
from docstore.tls.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a node that do not need the rest of the group. `node.py` makes and ends them."""

    config: Config
    node_id: str
    store_id: str
    store: Store
    streams: StreamStore
    streams_recovered: StreamsRecovered
    credentials: Credentials | None
    """What is shown and believed, with TLS."""
    registry: Registry
    founding: Founding
    joining: Joining
    lookup: Lookup
    links: PeerLinks
    rpc: Rpc
    membership: Membership
    access: Access | None
    """Who may ask for what; None: everybody for everything."""
    caller: Caller | None
    """What calls the receivers of subscriptions; None: nobody does."""
