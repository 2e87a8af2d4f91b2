"""Values that every layer shares: resources, stored objects, plans, conditions, reasons. No I/O, no clock."""
