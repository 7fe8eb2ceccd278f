"""The reliability lines, each on real processes and by its number: a promise and its measurement.

cut.py: a minority and a majority (line R04); members.py: the group changes (line R14);
levels.py: the two weaker levels (line R26);
owners.py: owners of documents are killed, paused, or cut off (lines R02, R03, R06, R07 and R22);
counting.py: nothing is won twice, counted twice or brought back (lines R08, R09, R11);
disks.py: emptied, old, flipped, failing, full (lines R16 to R19);
strain.py: many clients, rolling restarts, overload (lines R21, R23, R24, R38);
streams.py and stream_disks.py: flights, their leaders and their disks (lines S1 to S5);
locks.py, roles.py, groups.py: holders, leaders and members are killed (lines E1 to E4);
../kafka/lines.py: the same flights by clients of Kafka (line K1).

The others have programs of their own: `tests.chaos.torture` line R01, `bench.recovery` lines R12
and R13.
"""
