"""What earlier versions wrote, and every later one reads: frames, requests, files.

`frames_N.json` was written by the first version that spoke protocol N, and is never written anew:
`python -m tests.compat` makes the file of the present protocol if there is none yet.
"""
