"""Checks deploy/ against the complete definitions of KubeRay, with unknown fields refused.

    python -m tests.support.kuberay_schemas FOLDER

FOLDER is a checkout of KubeRay. The definitions are megabytes, so the tests use the list of fields
in `kubernetes_fields` instead.
"""

import sys
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = {"RayJob": "rayjob.yaml", "RayCronJob": "raycronjob.yaml"}
DEFINITIONS = "helm-chart/kuberay-operator/crds"


def closed(schema: Any) -> Any:
    """Return a schema that refuses fields it does not define."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: closed(part) for key, part in schema.items()}
    is_open = "additionalProperties" in own or own.get("x-kubernetes-preserve-unknown-fields")
    if own.get("type") == "object" and "properties" in own and not is_open:
        own["additionalProperties"] = False
    return own


def schemas(folder: Path) -> dict[tuple[str, str], Any]:
    """Return the schema of each version and kind that a checkout of KubeRay defines."""
    found = {}
    for path in sorted(folder.joinpath(DEFINITIONS).glob("ray.io_*.yaml")):
        spec = yaml.safe_load(path.read_text("utf-8"))["spec"]
        for version in spec["versions"]:
            key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
            found[key] = closed(version["schema"]["openAPIV3Schema"])
    return found


def problems(document: dict[str, Any], schema: Any) -> list[str]:
    """Return each problem of a document with its place."""
    errors = Draft202012Validator(schema).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in errors]


def main() -> None:
    """Print the problems of each file; exit with 1 if there is one."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    known, found = schemas(Path(sys.argv[1])), []
    for kind, name in FILES.items():
        document = yaml.safe_load((DEPLOY / name).read_text("utf-8"))
        key = (document["apiVersion"], document["kind"])
        if key[1] != kind or key not in known:
            sys.exit(f"{name}: {key} is not defined in {sys.argv[1]}/{DEFINITIONS}")
        found += [f"{name}: {problem}" for problem in problems(document, known[key])]
        sys.stdout.write(f"{name}: checked against {' '.join(key)}\n")
    sys.exit("\n".join(found) or 0)


if __name__ == "__main__":
    main()
