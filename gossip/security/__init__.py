"""Who can be a member at all, and the keys that see to it.

| file            | what it tells                                                     |
|-----------------|-------------------------------------------------------------------|
| `admission.py`  | the key, the label and the networks that a group has in common    |
| `keyring.py`    | which keys open, and which one seals                              |
| `key_file.py`   | the keyring in a file, for restarts                               |
| `seal.py`       | bytes that only the group can read or make                        |
| `replay.py`     | each packet counts once                                           |
| `authenticator.py` | what is opened, or refused and why                                |
| `ingress.py`     | from bytes of anybody to messages of members                      |
| `rotation.py`   | another key for the whole group, under traffic                    |
"""
