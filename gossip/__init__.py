"""Group membership by gossip, after SWIM and Lifeguard.

    agent = Agent("n1", ("127.0.0.1", 7001), config=Config.lan(), seeds=[("127.0.0.1", 7000)])
    agent.subscribe(lambda change: print(change.previous, "->", change.member.state))
    await agent.start()

A guided tour, in the order in which the files explain each other:

| file                        | what it tells                                             |
|-----------------------------|-----------------------------------------------------------|
| `member.py`                 | a belief about a member; which of two beliefs wins        |
| `messages.py`, `wire.py`    | every message with its limits; its bytes                  |
| `protocol/events.py`        | all inputs of the state machine                           |
| `protocol/effects.py`       | all outputs of the state machine                          |
| `protocol/swim.py`          | `Swim.step(event, now) -> list[Effect]`: the protocol     |
| `protocol/membership.py`    | what follows when a belief changes                        |
| `protocol/claim_rules.py`   | which statements are believed; when we refute             |
| `protocol/chronicle.py`     | the last changes of each belief, with their causes        |
| `protocol/probe.py`         | how a failure is noticed                                  |
| `protocol/order.py`        | which member is probed next                               |
| `protocol/suspicion.py`     | how long the accused may defend itself                    |
| `protocol/awareness.py`     | how a member notices that it is ill itself                |
| `protocol/broadcast.py`     | how news spreads                                          |
| `protocol/join.py`          | how a member finds the others                             |
| `protocol/anti_entropy.py`  | how the group heals                                       |
| `protocol/digest.py`        | how tables are compared without being sent                |
| `agent.py`                  | the shell around one `Swim`; with it `transport.py` for   |
|                             | sockets, `clock.py` for timers, `subscribers.py` for      |
|                             | receivers of news, `snapshot.py` for restarts             |
| `security/`                 | which processes can be members, and with which key        |
| `news.py`                   | the news that applications receive                        |
| `config.py`, `errors.py`    | every number with its reason; every error |

The answers are hints. A member taken for dead may live, and one taken for alive may have died just
now. An application that needs certainty needs a quorum, not a detector.
"""

from gossip.agent import Agent
from gossip.config import Config
from gossip.errors import GossipError
from gossip.member import Address, Change, Member, State
from gossip.protocol.chronicle import Moment
from gossip.security.admission import Security
from gossip.security.keyring import Keyring
from gossip.snapshot import Snapshot

__all__ = [
    "Address",
    "Agent",
    "Change",
    "Config",
    "GossipError",
    "Keyring",
    "Member",
    "Moment",
    "Security",
    "Snapshot",
    "State",
]
