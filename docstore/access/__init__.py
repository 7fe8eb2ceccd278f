"""Permissions of users, as the operator's access file grants them (`access_file`).

    grants.py          levels at paths, and what they allow
    rules.py           the file: roles, users, keys
    web_tokens.py      JSON Web Tokens, proven by a key of the file
    rates.py           requests per second of each user
    authenticator.py   the Authorization header -> the user

All of it is pure. `docstore/http/permissions.py` says which permission a request needs, and
`docstore/node/access_file.py` watches the file. The reasons are in
docs/decisions/0055-access-file-of-roles-and-tokens.md.
"""
