"""`python -m gpumond` is the command line."""

import sys

from gpumond.cli.main import main

sys.exit(main())
