# SPDX-License-Identifier: Apache-2.0
"""Signs random requests with botocore and with net/sigv4.c and compares: sigv4_botocore.py PROGRAM [COUNT [SEED]].

Exit status 77, skipped, where no botocore is installed (any version does; it is large, and nothing else needs it).
"""
import datetime
import random
import subprocess
import sys
from urllib.parse import quote

try:
    from botocore import auth, awsrequest, credentials
except ImportError:
    print("skipped: no botocore")
    sys.exit(77)

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
LETTERS = "abcXYZ019-_.~ +=&%*@:!$'(),;?#[]/äöß漢字"


class Fixed(datetime.datetime):
    """Stands in for the clock that botocore reads."""

    @classmethod
    def utcnow(cls):
        return cls(*NOW.timetuple()[:6])

    @classmethod
    def now(cls, tz=None):
        return cls(*NOW.timetuple()[:6], tzinfo=tz)


def text(rng, most=20):
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, most)))


def sign(expires, method, path, token, query, headers):
    keys = credentials.Credentials("AKIDTEST", "secretsecret/+test", token or None)
    encoded = "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in query)
    url = "http://127.0.0.1:9000" + quote(path, safe="/-_.~") + ("?" + encoded if encoded else "")
    request = awsrequest.AWSRequest(method=method, url=url, headers=dict(headers))
    if expires:
        auth.S3SigV4QueryAuth(keys, "s3", "us-east-1", expires=expires).add_auth(request)
        return request.url.split("X-Amz-Signature=")[1][:64]
    request.context["client_config"] = None
    signer = auth.S3SigV4Auth(keys, "s3", "us-east-1")
    signer.payload = lambda _: "UNSIGNED-PAYLOAD"
    request.headers["X-Amz-Content-SHA256"] = "UNSIGNED-PAYLOAD"
    signer.add_auth(request)
    return request.headers["Authorization"].split("Signature=")[1]


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(10 ** 6)
    rng = random.Random(seed)
    for module in ("datetime", "get_current_datetime"):
        if hasattr(auth, module):
            setattr(auth, module, Fixed if isinstance(getattr(auth, module), type) else
                    (lambda remove_tzinfo=True: Fixed.utcnow()) if module != "datetime" else
                    type("datetime", (), {"datetime": Fixed, "timezone": datetime.timezone}))
    lines, wanted = [], []
    for _ in range(count):
        expires = rng.choice((0, 900))
        query = list({text(rng, 8): text(rng) for _ in range(rng.randint(0, 4))}.items())
        names = rng.sample(["x-amz-meta-a", "x-amz-meta-a-b", "x-amz-acl", "range", "if-none-match", "content-type"], rng.randint(0, 4))
        headers = [(name, quote(text(rng), safe=" +=&*@:!$'(),;?/")) for name in names]
        one = (expires, rng.choice(("GET", "PUT", "POST", "DELETE", "HEAD")), "/" + text(rng, 30), rng.choice(("", "to/k+en==")), query, headers)
        wanted.append((sign(*one), one))
        fields = [str(expires), one[1], one[2], str(int(NOW.timestamp())), one[3], str(len(query))]
        fields += [x for pair in query for x in pair] + [str(len(headers))] + [x for pair in headers for x in pair]
        lines.append("\t".join(fields))
    got = subprocess.run([sys.argv[1], "net/sigv4_test", "lines"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True, timeout=60).stdout.split()
    wrong = [(want, made, one) for (want, one), made in zip(wanted, got) if want != made]
    print(f"{count - len(wrong)} of {count} signatures equal, seed {seed}")
    for row in wrong[:5]:
        print("differs:", row)
    sys.exit(bool(wrong) or len(got) != count)


main()
