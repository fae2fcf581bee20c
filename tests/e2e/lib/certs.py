# SPDX-License-Identifier: Apache-2.0
"""Authorities and certificates for tests, made with openssl."""
import subprocess


def make_ca(d, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", d / f"{name}.key", "-out", d / f"{name}.crt", "-days", "2", "-subj", f"/CN={name}"],
                   check=True, capture_output=True, timeout=60)


def make_cert(d, ca, name, subject=None, days=2):
    ext = d / f"{name}.ext"
    ext.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                    d / f"{name}.key", "-out", d / f"{name}.csr", "-subj", subject or f"/CN={name}"], check=True, capture_output=True, timeout=60)
    subprocess.run(["openssl", "x509", "-req", "-in", d / f"{name}.csr", "-CA", d / f"{ca}.crt", "-CAkey", d / f"{ca}.key",
                    "-CAcreateserial", "-out", d / f"{name}.crt", "-days", str(days), "-extfile", ext],
                   check=True, capture_output=True, timeout=60)


def tls_flags(d, name, ca="ca"):
    return ["--cert", d / f"{name}.crt", "--key", d / f"{name}.key", "--ca", d / f"{ca}.crt"]
