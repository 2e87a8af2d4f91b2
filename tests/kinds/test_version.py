"""The version that a ModelDeployment keeps on its Deployment."""

from modelyard.kinds.modeldeployment import version
from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec


def test_a_version_that_is_too_large_for_an_annotation_is_not_kept():
    small = ModelDeploymentSpec("chat", "org/repo", env=({"name": "A", "value": "x" * 60_000},))
    large = ModelDeploymentSpec("chat", "org/repo", env=({"name": "A", "value": "x" * 66_000},))
    assert (len(version.as_annotation(small)), version.as_annotation(large)) == (1, {})
