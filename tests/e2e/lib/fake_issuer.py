# SPDX-License-Identifier: Apache-2.0
"""An OpenID provider: its keys, with which it signs whatever a test wants it to, and the device flow, in which each question for a token
takes the next of the answers that a test has prepared."""
import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
import urllib.parse

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(n, size=None):
    return b64(n.to_bytes(size or (n.bit_length() + 7) // 8, "big"))


class Key:
    def __init__(self, alg, kid, bits=2048):
        self.alg, self.kid = alg, kid
        self.private = rsa.generate_private_key(65537, bits) if alg == "RS256" else ec.generate_private_key(ec.SECP256R1())

    def public(self):
        n = self.private.public_key().public_numbers()
        kind = ({"kty": "RSA", "n": number(n.n), "e": number(n.e)} if self.alg == "RS256" else
                {"kty": "EC", "crv": "P-256", "x": number(n.x, 32), "y": number(n.y, 32)})
        return {**kind, "kid": self.kid, "use": "sig", "alg": self.alg}

    def pem(self):
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def sign(self, data, alg=None):
        alg = alg or self.alg
        if alg == "none":
            return b"x"
        if alg == "HS256":  # with the public key's text as the secret
            return hmac.new(self.pem(), data, hashlib.sha256).digest()
        if self.alg == "RS256":
            return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())
        r, s = utils.decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


class FakeIssuer:
    def __init__(self):
        self.keys = [Key("RS256", "rsa-1"), Key("ES256", "ec-1")]
        self.fetches, self.documents = 0, {}
        self.answers = []  # to questions for a token: the name of an error, a document, bytes, or a function that makes one; then a token
        self.asked, self.revoked = [], []  # forms
        self.device, self.life, self.has_refresh = {}, 300, True
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                doc = issuer.answer(self.path)
                text = json.dumps(doc).encode()
                self.send_response(200 if doc else 404)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_POST(self):
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                doc = issuer.answer_form(self.path, form)
                text = doc if isinstance(doc, bytes) else json.dumps(doc).encode()
                self.send_response(400 if isinstance(doc, dict) and "error" in doc else 200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                try:
                    self.wfile.write(text)
                except OSError:  # a reader who has enough
                    self.close_connection = True

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # readers who have enough
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path):
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": self.url + "/keys", "device_authorization_endpoint": self.url + "/device",
                    "token_endpoint": self.url + "/token", "revocation_endpoint": self.url + "/revoke", **self.documents}
        if path == "/keys":
            self.fetches += 1
            return {"keys": [k if isinstance(k, dict) else k.public() for k in self.keys]}
        return None

    def answer_form(self, path, form):
        if path == "/device":
            return {"device_code": "device-1", "user_code": "WDJB-MJHT", "verification_uri": self.url + "/go", "expires_in": 60, "interval": 1, **self.device}
        if path == "/revoke":
            self.revoked.append(form["token"])
            return {}
        self.asked.append(form)
        answer = self.answers.pop(0) if self.answers else self.tokens()
        answer = answer() if callable(answer) else answer
        return {"error": answer, "error_description": f"because: {answer}"} if isinstance(answer, str) else answer

    def tokens(self, **claims):
        now = int(time.time())
        answer = {"access_token": f"opaque-{len(self.asked)}", "token_type": "Bearer", "expires_in": self.life,
                  "id_token": self.token(**{"exp": now + self.life, "jti": str(len(self.asked)), **claims})}
        return {**answer, "refresh_token": f"refresh-{len(self.asked)}"} if self.has_refresh else answer

    def token(self, key=None, head=(), alg=None, **claims):
        """A claim that is None is left out."""
        key = key or self.keys[0]
        now = int(time.time())
        said = {"iss": self.url, "aud": "tutti", "sub": "ada", "groups": ["ml"], "iat": now, "exp": now + 300, **claims}
        head = {"alg": alg or key.alg, "kid": key.kid, "typ": "JWT", **dict(head)}
        text = ".".join(b64(json.dumps({k: v for k, v in part.items() if v is not None}).encode()) for part in (head, said))
        return f"{text}.{b64(key.sign(text.encode(), alg))}"
