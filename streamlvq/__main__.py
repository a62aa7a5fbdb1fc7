"""`python -m streamlvq`: the same as the command `streamlvq`."""

from __future__ import annotations

import sys

from streamlvq.cli import main

if __name__ == "__main__":
    sys.exit(main())
