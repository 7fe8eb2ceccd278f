"""`docstore status`: a table of the members of a group."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from docstore.cli.tables import print_table
from docstore.client import Client, ClientError

Status = dict[str, Any]
"""Pages of a group and its nodes. group: page of the group. shares: node -> number of its slots.
nodes: node -> page of the node, {} without an answer."""


async def read_status(client: Client) -> Status:
    """Return the page of the group, and the page of each live node."""
    group = await client.json("GET", "/core/node-groups/default")
    selector = await client.json("GET", "/core/node-selectors/default")
    nodes = {member["id"]: await _node(client, member) for member in group["members"]}
    return {"group": group, "shares": selector["shares"], "nodes": nodes}


def show_status(status: Status, out: Console) -> None:
    """Print the members with state, owned slots and lag; then the warnings of the group."""
    group, nodes = status["group"], status["nodes"]
    roles = {each["id"]: each["role"] for each in group["configuration"]["members"]}
    columns = (
        "node", "state", "role", "ready", "slots owned", "share", "behind", "version", "zone",
        "address",
    )  # fmt: skip
    rows = []
    for member in group["members"]:
        node = nodes[member["id"]]
        share = status["shares"].get(member["id"], {})
        behind = sum(
            other.get("replicationLag", {}).get(member["id"], 0) for other in nodes.values()
        )
        rows.append((
            member["id"], _coloured(member["status"]), roles.get(member["id"], "none"),
            _ready(node),
            str(share.get("owned", 0)), f"{share.get('share', 0):.0%}", f"{behind} rows",
            _version(node), member["zone"], member["address"],
        ))  # fmt: skip
    print_table(columns, rows, title=_title(group), out=out)
    for warning in group.get("warnings", ()):
        out.print(f"[yellow]warning:[/yellow] {escape(warning)}")


def _title(group: dict[str, Any]) -> str:
    configuration = group["configuration"]
    title = f"group {configuration['clusterId'][:8]}, {group['convergence'].lower()}"
    if stored := configuration.get("storedProtocol"):
        title += f", stores what protocol {stored} reads"
    stage = configuration["stage"]
    return title if stage == "stable" else f"{title}, members are being changed: {stage}"


def _ready(node: dict[str, Any]) -> str:
    """Return whether a node is ready; "?" if its page is missing or does not say so."""
    return "?" if "ready" not in node else "yes" if node["ready"] else "no"


def _version(node: dict[str, Any]) -> str:
    """Return the version of a node, with the newest protocol that it supports."""
    return f"{node['version']} ({node['protocol']})" if "protocol" in node else ""


async def _node(client: Client, member: dict[str, Any]) -> dict[str, Any]:
    if member["status"] in ("DEAD", "LEFT") or not member["address"]:
        return {}
    try:
        async with client.to([member["address"]], timeout_s=3.0) as node:
            page: dict[str, Any] = await node.json("GET", "/core/management")
            return page
    except ClientError:
        return {}


def _coloured(state: str) -> Text:
    colour = {"ALIVE": "green", "SUSPECT": "yellow"}.get(state, "red")
    return Text(state.lower(), colour)
