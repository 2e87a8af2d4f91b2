"""Questions to programs outside the API server: the only package of the operator that opens sockets to them."""
