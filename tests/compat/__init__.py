"""Compatibility of versions: frames, requests, directories and backups that each version must read.

The first version with protocol N writes `frames_N.json` and `store_N.tar.xz`; the first whose
backups have format N writes `backup_N.tar.xz`. `python -m tests.compat` writes those of the present
version where there are none. Remove a file to have it written anew, but never after its release.
`later.py` is a made-up next version.
"""
