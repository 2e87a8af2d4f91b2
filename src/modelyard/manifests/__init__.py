"""Everything that is deployed, made from the kinds: CRDs, RBAC, the operator itself.

Nothing here talks to a cluster. The same values are printed by `modelyard crds` and written to `deploy/` by
`make generate`, and a test compares the two. `documents.py` goes the other way: it reads what users write.
"""
