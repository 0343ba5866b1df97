"""The commands `squinney content import`, `export` and `delete-leftovers`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from squinney.cli.connecting import open_systems
from squinney.cli.parameters import Json
from squinney.cli.printing import format_counts, print_result
from squinney.content import give_up_uploads
from squinney.content.folders.export import export_folder
from squinney.content.folders.importer import Importer, find_parent

app = typer.Typer(help="Pages, photos and comments.", no_args_is_help=True)


def _show(counts: Counter[str], as_json: bool) -> None:
    print_result(dict(counts), format_counts(dict(sorted(counts.items()))), as_json)


@app.command("import")
def import_folder(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Markdown files and pictures.")],
    under: Annotated[str, typer.Option(help="The path of the node to import below.")] = "/",
    author: Annotated[str, typer.Option(help="The author of files that do not name one.")] = "import",
    as_json: Json = False,
) -> None:
    """Import a folder as pages, folders and photos; a second run updates them."""
    with open_systems(context) as systems:
        services = systems.services["content"]
        importer = Importer(services["nodes"], services["photos"], {"_id": author, "name": author})
        importer.import_folder(folder, find_parent(services["nodes"], under))
    for name in importer.skipped:
        typer.echo(f"skipped: {name} is not Markdown, and not an accepted picture or video", err=True)
    _show(importer.counts, as_json)


@app.command()
def export(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(file_okay=False, help="The folder to write to; created if it is missing.")],
    under: Annotated[str, typer.Option(help="The path of the node to export from.")] = "/",
    as_json: Json = False,
) -> None:
    """Export the site, with drafts, as files that `import` reads."""
    with open_systems(context) as systems:
        services = systems.services["content"]
        counts = export_folder(services["nodes"], services["photos"], find_parent(services["nodes"], under), folder)
    _show(counts, as_json)


@app.command()
def delete_leftovers(context: typer.Context, as_json: Json = False) -> None:
    """Delete the leftovers of stalled uploads, replaced photos and removed pages; a job does so every minute."""
    with open_systems(context) as systems:
        counts = give_up_uploads(systems.db)
    _show(counts, as_json)
