"""Write the texts of all statements: run this after a change of what this package describes."""

from docstore.storage.described.texts import FILES, written

for module, file in FILES.items():
    file.write_text(written(module), "utf-8")
