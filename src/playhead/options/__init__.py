"""Every option of the product, declared once: the command line and the reference are made of these rows."""
