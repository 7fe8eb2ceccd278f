"""What earlier versions wrote, and every later one reads: frames, requests, directories, backups.

`frames_N.json` and `store_N.tar.xz` were written by the first version that spoke protocol N, and
`backup_N.tar.xz` by the first whose backups have format N. They are never written anew: `python -m
tests.compat` makes those of the present where there are none yet.
"""
