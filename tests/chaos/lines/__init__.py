"""The reliability lines, each on real processes and by its number: what was promised, what is seen.

owners.py: those who own documents die, sleep, or are heard by nobody (R02, R03, R06, R07);
counting.py: nothing is won twice, counted twice or brought back (R08, R09, R11);
disks.py: emptied, old, flipped, failing, full (R16 to R19);
strain.py: many at once, all restarted one by one, more than it can take (R21, R23, R24).

The others have programs of their own: R01 `torture`, R04 `split`, R14 `members`, R22 `python -m
tests.chaos --fault all`, R26 `levels`, all beside this package; R12 and R13 `bench.recovery`.
"""
