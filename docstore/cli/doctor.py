"""`docstore doctor`: faults and risks of a group, or of a stopped node's data directory."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.diagnosis.finding import RISK, WRONG, Finding, in_order
from docstore.cli.terminal import DEFAULT_URLS, AsJson, Urls, console, failed, show, talk
from docstore.model.words import count

if TYPE_CHECKING:
    from docstore.cli.diagnosis.seen import Seen

PANEL = "Nodes"
INDENT = len("wrong  ")
app = typer.Typer()


@app.command(rich_help_panel=PANEL)
def doctor(
    url: Urls = DEFAULT_URLS,
    data: Annotated[
        Path | None, typer.Option(help="Examine this data directory of a stopped node instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Report faults and risks, with what to do about each; exit code 1 if there is a fault."""
    looked, findings = _of_group(url) if data is None else _of_directory(data)
    is_well = all(each.grade is not WRONG for each in findings)
    if as_json:
        show({"well": is_well, "looked": looked, "findings": [_page(each) for each in findings]})
    else:
        _tell(looked, findings)
    raise typer.Exit(0 if is_well else 1)


def _of_group(urls: list[str]) -> tuple[str, list[Finding]]:
    from docstore.cli.node_pages import look

    seen = talk(urls, look)
    nodes = count(len(seen.members), "node")
    return f"{nodes}, {count(len(seen.selector['table']), 'slot')}", examine(seen)


def examine(seen: "Seen") -> list[Finding]:
    from docstore.cli.diagnosis import of_members, of_nodes, of_slots, of_streams

    found = [each for part in (of_members, of_slots, of_nodes, of_streams)
             for each in part.findings(seen)]  # fmt: skip
    return in_order([*found, *_of_factories(seen)])


def _of_factories(seen: "Seen") -> Iterator[Finding]:
    for declaration in seen.factories:
        for warning in declaration.get("warnings", ()):
            yield Finding(
                RISK, str(declaration["path"]),
                f"`{warning['member']}` of its declaration changes nothing: {warning['detail']}",
                "remove it from the declaration, or do not rely on it",
                "http.md#settings-without-effect",
            )  # fmt: skip


def _of_directory(data: Path) -> tuple[str, list[Finding]]:
    from docstore.cli.diagnosis import directory
    from docstore.cli.directory import look

    try:
        return str(data), directory.examine(look(data))
    except OSError as error:
        raise failed(error) from None


def _page(finding: Finding) -> dict[str, Any]:
    return {
        "grade": finding.grade.value, "where": finding.where, "what": finding.what,
        "do": finding.todo, "see": f"docs/{finding.see}",
    }  # fmt: skip


def _tell(looked: str, findings: Sequence[Finding]) -> None:
    from rich.markup import escape
    from rich.padding import Padding

    out = console(is_wide=True)
    for each in findings:
        colour = "red" if each.grade is WRONG else "yellow"
        grade = f"[{colour}]{each.grade.value:{INDENT}}[/{colour}]"
        where = f"[bold]{escape(each.where)}[/bold]: " if each.where else ""
        out.print(f"{grade}{where}{escape(each.what)}")
        for line in (escape(each.todo), f"[dim]docs/{each.see}[/dim]"):
            out.print(Padding(line, (0, 0, 0, INDENT), expand=False))
    wrong = sum(each.grade is WRONG for each in findings)
    if findings:
        out.print(f"{looked}: {wrong} wrong, {len(findings) - wrong} at risk")
    else:
        out.print(f"{looked}: no faults, no risks")
