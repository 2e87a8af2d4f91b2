"""What the verbs for clusters do: look at a cluster, explain it, change it. `cli` reads their command lines.

They act with the kubeconfig and the rights of the user who starts them, never with those of the operator. What is said
about an object is worked out by pure functions (`rows`, `explanation` and others); reading and printing is done around
them.
"""
