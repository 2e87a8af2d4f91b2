"""Beacon: the toy kind. It uses all that the contract offers, as a newcomer would, and nothing outside this folder.

A Beacon takes a seat that no other has and remembers it, has a lamp lit on a host outside the cluster, hoists a Flag
where the cluster knows Flags, and has the lamp put out before it goes.
"""

from modelyard.core.resources import CONFIG_MAP
from modelyard.kinds.contract import Kind
from tests.toy import api, decide, plan, reads, status

BEACON = Kind(
    resource=api.RESOURCE,
    spec=api.BeaconSpec,
    status=api.BeaconStatus,
    reads=reads.reads,
    decide=decide.decide,
    memory=decide.Memory,
    pool="seats",
    plan=plan.plan,
    finalize=plan.finalize,
    summarise=status.summarise,
    looks_at=(api.RESOURCE,),
    children=(CONFIG_MAP, api.FLAG),
    calls=(api.Light, api.Douse),
)
