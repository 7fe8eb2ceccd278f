"""Services: the rules that authors' classes and declarations set for documents."""
