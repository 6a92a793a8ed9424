"""The fields of Kubernetes and KubeRay 1.7 in deploy/, with their types. For tests only.

This is a list of facts; the definitions are megabytes. A field that is not in it is misspelt or
new here: look it up in the definition (`kubectl explain`), then add it.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, create_model


def fields(**types: Any) -> type[BaseModel]:
    """Return the model of an object; a document may omit fields but has no others."""
    config = ConfigDict(extra="forbid", strict=True)
    own: dict[str, Any] = {name: (kind, None) for name, kind in types.items()}
    return create_model("Fields", __config__=config, **own)


STRINGS = dict[str, str]

METADATA = fields(name=str, labels=STRINGS, annotations=STRINGS)

AMOUNTS = fields(cpu=str, memory=str)

RIGHTS = fields(allowPrivilegeEscalation=bool, capabilities=fields(drop=list[str]))
"""The security context of a container."""

CONTAINER = fields(
    name=str,
    image=str,
    command=list[str],
    args=list[str],
    env=list[fields(name=str, value=str)],
    volumeMounts=list[fields(name=str, mountPath=str, readOnly=bool)],
    resources=fields(limits=AMOUNTS, requests=AMOUNTS),
    securityContext=RIGHTS,
)

POD = fields(
    restartPolicy=str,
    serviceAccountName=str,
    automountServiceAccountToken=bool,
    securityContext=fields(
        runAsNonRoot=bool,
        runAsUser=int,
        seccompProfile=fields(type=Literal["RuntimeDefault", "Localhost", "Unconfined"]),
    ),
    terminationGracePeriodSeconds=int,
    nodeSelector=STRINGS,
    tolerations=list[fields(key=str, operator=str, effect=str)],
    volumes=list[fields(name=str, configMap=fields(name=str))],
    containers=list[CONTAINER],
)

TEMPLATE = fields(metadata=METADATA, spec=POD)

CLUSTER = fields(
    rayVersion=str,
    enableInTreeAutoscaling=bool,
    authOptions=fields(mode=Literal["disabled", "token"]),
    autoscalerOptions=fields(
        version=Literal["v1", "v2"], idleTimeoutSeconds=int, securityContext=RIGHTS
    ),
    headGroupSpec=fields(rayStartParams=STRINGS, template=TEMPLATE),
    workerGroupSpecs=list[
        fields(
            groupName=str,
            replicas=int,
            minReplicas=int,
            maxReplicas=int,
            idleTimeoutSeconds=int,
            labels=STRINGS,
            rayStartParams=STRINGS,
            template=TEMPLATE,
        )
    ],
)

RAYJOB = fields(
    entrypoint=str,
    entrypointNumCpus=int | float,
    submissionMode=Literal["K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"],
    backoffLimit=int,
    submitterConfig=fields(backoffLimit=int),
    submitterPodTemplate=TEMPLATE,
    activeDeadlineSeconds=int,
    preRunningDeadlineSeconds=int,
    shutdownAfterJobFinishes=bool,
    ttlSecondsAfterFinished=int,
    suspend=bool,
    runtimeEnvYAML=str,
    metadata=STRINGS,
    rayClusterSpec=CLUSTER,
)

SPECS = {
    ("ray.io/v1", "RayJob"): RAYJOB,
    ("ray.io/v1", "RayCronJob"): fields(
        schedule=str, timeZone=str, suspend=bool, jobTemplate=RAYJOB
    ),
    ("batch/v1", "CronJob"): fields(
        schedule=str,
        timeZone=str,
        suspend=bool,
        concurrencyPolicy=Literal["Allow", "Forbid", "Replace"],
        startingDeadlineSeconds=int,
        successfulJobsHistoryLimit=int,
        failedJobsHistoryLimit=int,
        jobTemplate=fields(spec=fields(backoffLimit=int, template=TEMPLATE)),
    ),
}
