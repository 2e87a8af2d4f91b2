"""Values that every layer shares: resources, stored objects, plans, conditions, reasons. No async, no I/O."""
