"""What keeps a home: ``backup``, ``restore``, and ``salvage`` for a store that is damaged."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from angelia.cli.desk import AsJson
from angelia.cli.show import print_json, print_line, printable, shortened

_NAMES_SHOWN = 20


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup to write: one tar archive.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    settings: Annotated[
        bool,
        typer.Option("--settings", help="With config.yaml and .env; the backup then holds your secrets."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the store and the spooled files into one archive, while the gateway runs or not.

    The backup is synced, read back and compared before it gets its name. It holds every
    conversation that is on record; keep it as private as the home.
    """
    from angelia.gateway.backup import back_up
    from angelia.gateway.home import default_home

    done = back_up(default_home(os.environ), file, force=force, settings=settings)
    if as_json:
        print_json(
            {
                "file": str(done.file),
                "bytes": done.size,
                "spooled": done.spooled,
                "missing": list(done.missing),
                "settings": list(done.settings),
            }
        )
    else:
        files = f"{done.spooled} spooled file{'s' * (done.spooled != 1)}"
        said = ", ".join(["the store", files, *done.settings])
        print_line(f"wrote {printable(str(done.file))} ({done.size:,} bytes): {said}")
    _tell_missing(done.missing, "were not in the spool")


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A backup, or a store that was kept somewhere (state.db).")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also where there is a store: it is put aside, not deleted.")
    ] = False,
    send_owed: Annotated[
        bool,
        typer.Option("--send-owed", help="Send what the backup owes, marked, instead of asking first."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a backup the store of this home, with its spooled files. The gateway must not run.

    What the backup owes may have been sent since it was made, so it is parked: shown by `angelia
    deliveries --parked`, sent once you `angelia deliveries release` it, with the marker. Messages that
    were waiting for an answer are not answered: their senders are asked, likewise, to send them again.
    """
    from angelia.gateway.home import default_home
    from angelia.gateway.restore import restore as put_back

    done = put_back(default_home(os.environ), file, force=force, send_owed=send_owed)
    if as_json:
        print_json(
            {
                "parked": done.parked,
                "released": done.released,
                "turns_given_up": done.turns,
                "spooled": done.spooled,
                "missing": list(done.missing),
                "settings": list(done.settings),
                "aside": str(done.aside) if done.aside else None,
            }
        )
        return
    print_line(f"restored from {printable(str(file))}, with {done.spooled} spooled files")
    for name in done.settings:
        print_line(f"wrote {name}, which was not there")
    if done.aside:
        print_line(f"the store that was here is now {printable(str(done.aside))}")
    if done.turns:
        print_line(
            f"{done.turns} messages without an answer were given up; their senders will be asked again"
        )
    if done.released:
        print_line(f"{done.released} owed deliveries go out at the next start, with the marker")
    if done.parked:
        print_line(
            f"{done.parked} owed deliveries are PARKED, for they may have arrived: angelia deliveries "
            "--parked, then: angelia deliveries release ID (or --all), or cancel ID"
        )
    _tell_missing(done.missing, "were not in the spool when the backup was made")


def _tell_missing(names: tuple[str, ...], where: str) -> None:
    if names:
        print(f"{len(names)} files that the store names {where}:", file=sys.stderr)
        for name in names[:_NAMES_SHOWN]:
            print(f"  {name}", file=sys.stderr)
        if len(names) > _NAMES_SHOWN:
            print(f"  and {len(names) - _NAMES_SHOWN} more", file=sys.stderr)


def salvage(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The damaged store, such as state.db.")],
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="NEW", help="The new store; by default FILE.salvaged."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put every readable row of a damaged store into a new one, and say what was lost.

    The damaged file is not changed. `angelia restore NEW --force` puts the new store in its place;
    everything owed is parked, for nobody knows what of it was sent.
    """
    from angelia.gateway.salvage import salvage as read_what_can_be_read

    done = read_what_can_be_read(file, into)
    if as_json:
        print_json(
            {
                "file": str(done.file),
                "whole": done.whole,
                "parked": done.parked,
                "notes": list(done.notes),
                "tables": [
                    {"table": t.table, "kept": t.kept, "lost": t.lost, "refused": dict(t.refused)}
                    for t in done.tables
                ],
            }
        )
        return
    for table in done.tables:
        lost = [*table.lost, *(f"{count} refused ({why})" for why, count in table.refused.items())]
        said = f"; lost: {'; '.join(lost)}" if lost else ""
        print_line(f"{table.table}: {table.kept} rows kept{shortened(said, 300) if said else ''}")
    for note in done.notes:
        print_line(f"note: {printable(note)}")
    print_line(f"{'nothing was lost' if done.whole else 'NOT ALL could be read'}; {done.parked} are parked")
    new = printable(str(done.file))
    print_line(f"wrote {new}; put it in place with: angelia restore {new} --force")


def add_to(app: typer.Typer) -> None:
    """Put these commands into ``app``."""
    app.command()(backup)
    app.command()(restore)
    app.command()(salvage)
