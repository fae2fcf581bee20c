# SPDX-License-Identifier: Apache-2.0
"""Each set of manifests as the API server takes it, with its defaults, admission and checks of values, which no schema has: a dry run. Its
only warnings are those that namespace.yaml asks for."""
from bed import OVERLAYS, ROOT, kubectl, say


def check():
    namespace = ROOT / "deploy/kubernetes/base/namespace.yaml"
    kubectl("apply", "-f", namespace, "-f", ROOT / "tests/data/servicemonitors.yaml")
    kubectl("wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com", "--timeout=60s")
    folders = [ROOT / "deploy/kubernetes", *sorted(OVERLAYS.iterdir())]
    for folder in folders:
        p = kubectl("apply", "-k", folder, "--dry-run=server", ok=False)
        assert p.returncode == 0, f"{folder.name}: {p.stdout}{p.stderr}"
        warnings = [line for line in p.stderr.splitlines() if "would violate PodSecurity" not in line and "last-applied-configuration" not in line]
        assert not warnings, (folder.name, warnings)
        assert p.stdout.count("(server dry run)") == p.stdout.count("\n") > 10, p.stdout
    kubectl("delete", "-f", namespace, "-f", ROOT / "tests/data/servicemonitors.yaml", "--timeout=120s")
    say(f"the API server takes each of {len(folders)} sets of manifests: {', '.join(f.name for f in folders)}")
