"""Admission: which processes can be members, and the keys of the group.

| file               | content                                                        |
|--------------------|----------------------------------------------------------------|
| `admission.py`     | the key, the label and the networks that a group has in common |
| `keyring.py`       | which keys open, and which one seals                           |
| `key_file.py`      | the keyring in a file, for restarts                            |
| `seal.py`          | bytes that only the group can read or make                     |
| `replay.py`        | detection of repeated packets                                  |
| `authenticator.py` | which sessions this member believes, and why                   |
| `ingress.py`       | packets become messages of members                             |
| `rotation.py`      | another key for the whole group, under traffic                 |
"""
