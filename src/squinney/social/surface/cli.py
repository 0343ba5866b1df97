"""`squinney social`: import a graph, write a post, read news and show counts."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.progress import Progress

from squinney.cli.connecting import open_systems
from squinney.cli.parameters import Cursor, Json, Limit
from squinney.cli.printing import console, format_counts, print_page, print_result
from squinney.errors import Invalid
from squinney.social import Network, Post
from squinney.social.members.graph_import import LOADED_AT_ONCE, parse_pair
from squinney.social.system import SYSTEM
from squinney.system import Assembled

app = typer.Typer(help="People, circles and posts.", no_args_is_help=True)


def _network(systems: Assembled) -> Network:
    return cast(Network, systems.services["social"]["network"])


@app.command("load-graph")
def load_graph(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="Two ids per line, plain or gzipped. Lines with # are comments."
        ),
    ],
    circle: Annotated[
        str, typer.Option(help="The circle of the first id that the second id is put into.")
    ] = "following",
    prefix: Annotated[str, typer.Option(help="Added before every id, to keep several graphs separate.")] = "",
) -> None:
    """Import an edge list: the first of each pair follows the second. Loading a file again changes nothing."""
    pairs = [(prefix + me, prefix + other) for me, other in _pairs(file)]
    with open_systems(context) as systems, Progress(console=console, transient=True) as progress:
        task = progress.add_task("edges", total=len(pairs))
        new = 0
        for loaded in _network(systems).load(pairs, circle=circle):
            new += loaded
            progress.advance(task, LOADED_AT_ONCE)
    console.print(f"{len(pairs):,} edges read, {new:,} new", highlight=False)


def _pairs(file: Path) -> Iterator[tuple[str, str]]:
    try:
        with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
            for number, line in enumerate(lines, 1):
                pair = parse_pair(line, number)
                if pair:
                    yield pair
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} cannot be read: {error}", field="file") from error


@app.command()
def post(
    context: typer.Context,
    me: Annotated[str, typer.Argument(help="The author: a member's id.")],
    text: str,
    circle: Annotated[
        list[str] | None, typer.Option(help="A circle of the author that may see the post; repeat for several.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="The member on whose wall the post is written.")] = None,
    as_json: Json = False,
) -> None:
    """Write a status post: public, unless circles are named."""
    with open_systems(context) as systems:
        made = _network(systems).post(me, "status", {"text": text}, circle or ["*public*"], to)
        _network(systems).deliver()
    print_result(made, made["id"], as_json)


@app.command()
def feed(
    context: typer.Context,
    me: Annotated[str, typer.Argument(help="A member's id.")],
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """Show a member's news, newest first."""
    with open_systems(context) as systems:
        page = _network(systems).news(me, cursor=cursor, limit=limit)
    print_page(page, as_json, ["time", "author", "post", "comments"], _row)


def _row(post: Post) -> list[str]:
    detail = post["detail"]
    text = detail.get("text") or detail.get("url") or detail.get("place", "")
    return [f"{post['ts']:%Y-%m-%d %H:%M}", post["by"]["name"], text, str(post["comment_count"])]


@app.command()
def stats(context: typer.Context, as_json: Json = False) -> None:
    """Show the numbers of members, posts and deliveries."""
    with open_systems(context) as systems:
        counts = SYSTEM.figures(systems.db)
    print_result(counts, format_counts(counts), as_json)
