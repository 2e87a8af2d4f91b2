"""The one way through the code: queue, caches, gather, apply, status. It knows kinds only by their contract."""
