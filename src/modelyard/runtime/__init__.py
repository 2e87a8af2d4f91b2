"""The one reconcile loop: informers, queue, gather, apply, status, leader election. Our controller-runtime.

`manager` wires it up and `controller` is the loop. Kinds are known only by their contract, `kinds/contract.py`.
"""
