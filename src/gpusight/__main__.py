"""`python -m gpusight` is the same as `gpusight`."""

import sys

from gpusight.cli import main

sys.exit(main())
