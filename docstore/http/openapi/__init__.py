"""The HTTP interface as OpenAPI 3.1 describes it: what each path takes, and what it answers."""
