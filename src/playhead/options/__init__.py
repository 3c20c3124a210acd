"""All options of the product, declared once: the command line and the reference are made from these rows."""
