"""`python -m hf_scaffold` is `hf-scaffold`."""

import sys

from hf_scaffold.cli.commands import main

sys.exit(main())
