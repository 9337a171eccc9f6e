"""`python -m bridge` is `soul-bridge`."""

import sys

from bridge.cli import main

sys.exit(main())
