"""The fields of Kubernetes and KubeRay 1.7 in deploy/, with their types. For tests only.

This is a list of facts; the definitions are megabytes. A field that is not in it is misspelt or
new here: look it up in the definition (`kubectl explain`), then add it.
"""

from typing import Any

STRINGS = {str: str}
"""Any keys; all keys and values are strings."""

METADATA = {"name": str, "labels": STRINGS, "annotations": STRINGS}

AMOUNTS = {"cpu": str, "memory": str}

CONTAINER = {
    "name": str,
    "image": str,
    "command": [str],
    "args": [str],
    "env": [{"name": str, "value": str}],
    "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool}],
    "resources": {"limits": AMOUNTS, "requests": AMOUNTS},
}

POD = {
    "restartPolicy": str,
    "serviceAccountName": str,
    "terminationGracePeriodSeconds": int,
    "nodeSelector": STRINGS,
    "tolerations": [{"key": str, "operator": str, "effect": str}],
    "volumes": [{"name": str, "configMap": {"name": str}}],
    "containers": [CONTAINER],
}

TEMPLATE = {"metadata": METADATA, "spec": POD}

CLUSTER = {
    "rayVersion": str,
    "enableInTreeAutoscaling": bool,
    "authOptions": {"mode": ("disabled", "token")},
    "autoscalerOptions": {"version": ("v1", "v2"), "idleTimeoutSeconds": int},
    "headGroupSpec": {"rayStartParams": STRINGS, "template": TEMPLATE},
    "workerGroupSpecs": [
        {
            "groupName": str,
            "replicas": int,
            "minReplicas": int,
            "maxReplicas": int,
            "idleTimeoutSeconds": int,
            "labels": STRINGS,
            "rayStartParams": STRINGS,
            "template": TEMPLATE,
        }
    ],
}

RAYJOB = {
    "entrypoint": str,
    "entrypointNumCpus": (int, float),
    "submissionMode": ("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"),
    "backoffLimit": int,
    "submitterConfig": {"backoffLimit": int},
    "activeDeadlineSeconds": int,
    "preRunningDeadlineSeconds": int,
    "shutdownAfterJobFinishes": bool,
    "ttlSecondsAfterFinished": int,
    "suspend": bool,
    "runtimeEnvYAML": str,
    "metadata": STRINGS,
    "rayClusterSpec": CLUSTER,
}

RAYCRONJOB = {"schedule": str, "timeZone": str, "suspend": bool, "jobTemplate": RAYJOB}

CRONJOB = {
    "schedule": str,
    "timeZone": str,
    "suspend": bool,
    "concurrencyPolicy": ("Allow", "Forbid", "Replace"),
    "startingDeadlineSeconds": int,
    "successfulJobsHistoryLimit": int,
    "failedJobsHistoryLimit": int,
    "jobTemplate": {"spec": {"backoffLimit": int, "template": TEMPLATE}},
}

SPECS = {
    ("ray.io/v1", "RayJob"): RAYJOB,
    ("ray.io/v1", "RayCronJob"): RAYCRONJOB,
    ("batch/v1", "CronJob"): CRONJOB,
}


def problems(document: Any, fields: Any, place: str = "spec") -> list[str]:
    """Return the differences between a document and the list of fields, by location."""
    if isinstance(fields, list):
        if not isinstance(document, list):
            return [f"{place}: not a list"]
        each = (problems(own, fields[0], f"{place}[{n}]") for n, own in enumerate(document))
        return [problem for own in each for problem in own]
    if isinstance(fields, dict):
        return _problems_of_object(document, fields, place)
    allowed = fields if isinstance(fields, tuple) else (fields,)
    if any(document == own or type(document) is own for own in allowed):
        return []
    return [f"{place}: {document!r}"]


def _problems_of_object(document: Any, fields: Any, place: str) -> list[str]:
    if not isinstance(document, dict):
        return [f"{place}: not an object"]
    found = []
    for key, own in document.items():
        if key not in fields and fields is not STRINGS:
            found.append(f"{place}.{key}: no such field")
        else:
            found += problems(own, fields.get(key, str), f"{place}.{key}")
    return found
