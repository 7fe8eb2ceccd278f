"""Services: what authors (and declarations) say of their documents."""
