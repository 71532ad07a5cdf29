"""``python -m angelia``: the command, for an environment whose scripts are not on the path."""

from __future__ import annotations

from angelia.cli.main import main

if __name__ == "__main__":
    main()
