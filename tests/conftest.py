"""What holds for every test: examples of Hypothesis are the same on every run.

A failure here must be a failure everywhere, so the seed is fixed and no time limit applies to
a single example. To search wider: HYPOTHESIS_PROFILE=search.
"""

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("search", max_examples=5000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
