#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What CoreDNS and kube-proxy are for, as far as tests/cluster.sh needs it: k8s_net.py API TOKEN NAMES SERVICE

Answers at NAMES:53 for the Services of the cluster, of a headless one with its Ready pods, for the pods of a StatefulSet by their names, and
forwards SERVICE:443, the address of the API server's own Service, to API, a URL on loopback. There are no other names.
"""
import ipaddress
import json
import socket
import ssl
import struct
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

API, TOKEN, NAMES, SERVICE = sys.argv[1:]
SUFFIX = ["svc", "cluster", "local"]
NO_ERROR, SERVER_FAILED, NO_NAME = 0, 2, 3
TTL_S = 5


def get(path):
    request = urllib.request.Request(API + path, headers={"Authorization": "Bearer " + TOKEN})
    with urllib.request.urlopen(request, timeout=5, context=ssl._create_unverified_context()) as answer:
        return json.load(answer)


def look_up(labels):
    """(code, addresses) of [POD.]NAME.NAMESPACE.svc.cluster.local."""
    if len(labels) not in (5, 6) or labels[-3:] != SUFFIX:
        return NO_NAME, []
    name, space = map(urllib.parse.quote, labels[-5:-3])
    pod = labels[0] if len(labels) == 6 else None
    try:
        address = get(f"/api/v1/namespaces/{space}/services/{name}")["spec"]["clusterIP"]
        if address != "None":
            return (NO_NAME, []) if pod else (NO_ERROR, [address])
        slices = get(f"/apis/discovery.k8s.io/v1/namespaces/{space}/endpointslices?labelSelector=kubernetes.io/service-name={name}")["items"]
    except urllib.error.HTTPError as e:
        return NO_NAME if e.code == 404 else SERVER_FAILED, []
    except OSError:
        return SERVER_FAILED, []
    ready = [a for s in slices for e in s["endpoints"] or [] if e["conditions"].get("ready") and pod in (None, e.get("hostname")) for a in e["addresses"]]
    return NO_ERROR if ready else NO_NAME, ready


def answer(query):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    question, kind = query[12:at + 5], struct.unpack_from("!H", query, at + 1)[0]
    code, addresses = look_up(labels)
    records = [ipaddress.IPv4Address(a).packed for a in addresses] if kind == 1 else []
    head = query[:2] + struct.pack("!HHHHH", 0x8480 | (query[2] & 1) << 8 | code, 1, len(records), 0, 0)
    return head + question + b"".join(struct.pack("!HHHIH", 0xc00c, 1, 1, TTL_S, 4) + r for r in records)


def serve_names():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((NAMES, 53))
        while True:
            query, peer = s.recvfrom(4096)
            try:
                s.sendto(answer(query), peer)
            except (IndexError, ValueError, struct.error) as e:
                print(f"a query of {peer[0]}: {e}", flush=True)


def copy(a, b):
    try:
        while data := a.recv(1 << 16):
            b.sendall(data)
    except OSError:
        pass
    for s in (a, b):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def forward():
    url = urllib.parse.urlsplit(API)
    with socket.create_server((SERVICE, 443)) as listener:
        while True:
            client, _ = listener.accept()
            server = socket.create_connection((url.hostname, url.port), 20)
            server.settimeout(None)  # a watch may say nothing for hours
            for ends in ((client, server), (server, client)):
                threading.Thread(target=copy, args=ends, daemon=True).start()


if __name__ == "__main__":
    threading.Thread(target=serve_names, daemon=True).start()
    forward()
