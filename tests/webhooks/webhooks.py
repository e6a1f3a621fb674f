"""Signs and verifies webhooks with the libraries that others use: PyPI's standardwebhooks and cryptography.

Reads a JSON array of tasks, and prints a JSON array with the result of each: a signature; or null if the library
accepts a request, and the reason if it does not.
"""

import base64
import datetime
import json
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def signed(headers, body):
    return f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}".encode()


def sign(task):
    headers, body = task["headers"], task["body"]
    kind, _, key = task["secret"].partition("_")
    if kind == "whsk":
        private = Ed25519PrivateKey.from_private_bytes(base64.b64decode(key))
        return "v1a," + base64.b64encode(private.sign(signed(headers, body))).decode()
    time = datetime.datetime.fromtimestamp(int(headers["webhook-timestamp"]), tz=datetime.timezone.utc)
    return Webhook(task["secret"]).sign(headers["webhook-id"], time, body)


def verify(task):
    headers, body = task["headers"], task["body"]
    kind, _, key = task["secret"].partition("_")
    if kind == "whsec":
        try:
            Webhook(task["secret"]).verify(body, headers)
            return None
        except WebhookVerificationError as error:
            return str(error)
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key))
    for one in headers["webhook-signature"].split(" "):
        version, _, signature = one.partition(",")
        if version != "v1a":
            continue
        try:
            public.verify(base64.b64decode(signature), signed(headers, body))
            return None
        except InvalidSignature:
            pass
    return "no v1a signature is right"


tasks = json.load(sys.stdin)
print(json.dumps([{"sign": sign, "verify": verify}[task["do"]](task) for task in tasks]))
