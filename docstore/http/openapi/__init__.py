"""The HTTP interface in OpenAPI 3.1: the requests and the answers of each path."""
