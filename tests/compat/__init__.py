"""What earlier versions wrote, and every later one reads: frames, requests, a node's directory.

`frames_N.json` and `store_N.tar.xz` were written by the first version that spoke protocol N, and
are never written anew: `python -m tests.compat` makes those of the present protocol where there are
none yet.
"""
