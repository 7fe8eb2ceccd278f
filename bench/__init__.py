"""docstore beside etcd: same machine, same run, same load generator, one loaded at a time.

`python -m bench` prints the table and keeps the figures as JSON under bench/results/.

- machine.py: what is measured on, free ports, a real disk
- cluster.py: three processes that we started, and what a cluster must offer to be measured
- etcd.py and docstores.py: the two clusters
- load.py with load.lua: wrk; bulk.py: bulk load; failover.py: kill -9 and the first write after
- rounds.py: the order of things; report.py: table, file; alone.py: options, exit code

`python -m bench.large` measures docstore alone, with a million documents stored (large.py).

`python -m bench.streams` does the same for record streams, beside NATS JetStream.

- nats.py and topics.py: the two clusters; generator.py: clients of our own, the same for both
- streams.py: the order of things, and goals
- streams_disk.py: what their disk alone does
"""
