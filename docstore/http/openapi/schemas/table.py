"""All schemas of bodies by name: requests in full, answers as far as clients need them.

Answers may get further members later, so their schemas allow any.
"""

from docstore.http.openapi.schemas.documents import DOCUMENTS
from docstore.http.openapi.schemas.nodes import NODES
from docstore.http.openapi.schemas.owners import OWNERS
from docstore.http.openapi.schemas.shapes import Schemas
from docstore.http.openapi.schemas.shared import SHARED
from docstore.http.openapi.schemas.streams import STREAMS

SCHEMAS: Schemas = {**SHARED, **NODES, **DOCUMENTS, **STREAMS, **OWNERS}
