"""Hooks of schemathesis: what an example needs exists before it is sent, and each answer is counted.

RESEQ_URL is the service, RESEQ_CALLS the file that gets a line for each call: operation, status.
"""

import os

import requests
import schemathesis

URL = os.environ["RESEQ_URL"]
CALLS = open(os.environ["RESEQ_CALLS"], "a", buffering=1)
NAME, TOPIC, PULLED = "orders", "all-orders", "pulled"
DEFINITION = {"url": "http://127.0.0.1:9/", "transform": {"kind": "worker"}, "ordering": "destination", "log_bodies": True, "ids_max": 100}
SESSION = requests.Session()


def ask(method, path, body=None):
    return SESSION.request(method, f"{URL}/v1{path}", json=body)


def stamped(**more):
    """Sends a message with these further fields, and returns its sequence."""
    answer = ask("POST", "/messages", {"destinations": [NAME], "body": 1, **more}).json()
    return answer["deliveries"][0]["sequence"]


def head():
    stats = ask("GET", f"/destinations/{NAME}/stats").json()
    if not stats.get("head"):
        log = ask("GET", f"/destinations/{NAME}/log?limit=5").json()
        operations = ask("GET", f"/destinations/{NAME}/operations?limit=3").json()
        raise RuntimeError(f"the message that was just sent is no head: {stats}, {log}, {operations}")
    return stats["head"]["sequence"]


def dead_letter():
    ask("POST", f"/destinations/{NAME}/purge", {})
    stamped()
    sequence = head()
    ask("POST", f"/destinations/{NAME}/skip-head", {"sequence": sequence})
    return sequence


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    return value if isinstance(value, (str, bytes)) else str(value)


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.path_parameters or {}
    operation = case.operation.definition.raw.get("operationId", "")
    body = case.body if isinstance(case.body, dict) else {}
    # Long polls would only wait.
    if operation in ("claim", "consume") and isinstance(body.get("wait_ms"), int):
        body["wait_ms"] = 0
    if operation == "await_result" and str((case.query or {}).get("wait_ms", "x")).isdigit():
        case.query = {**case.query, "wait_ms": min(int(case.query["wait_ms"]), 60001) // 60001 * 60001}
    # A valid time would only make the answer last.
    if operation == "tail_deliveries":
        time = str((case.query or {}).get("duration_ms", 0))
        if time.isdigit() and int(time) <= 600000:
            case.query = {**(case.query or {}), "duration_ms": 0}
    if path.get("destination") == NAME or path.get("topic") == TOPIC or operation in ("send_messages", "claim"):
        ask("PUT", f"/destinations/{NAME}", DEFINITION)
        ask("POST", f"/destinations/{NAME}/resume", {})
        if operation != "define_topic":
            ask("PUT", f"/topics/{TOPIC}", {"destinations": [NAME]})
    if operation in ("show_token", "revoke_token") and str(path.get("id", "")).startswith("01a20b3e"):
        path["id"] = ask("POST", "/tokens", {"name": "for an example", "scopes": ["read"]}).json()["id"]
    if path.get("destination") != NAME:
        return
    if operation == "consume":
        path["destination"] = PULLED
        ask("PUT", f"/destinations/{PULLED}", {"delivery": {"kind": "pull"}})
        return
    if operation in ("show_message", "cancel_message") and path.get("sequence") in (1, "1"):
        path["sequence"] = stamped()
    elif operation == "run_message_now" and path.get("sequence") in (1, "1"):
        path["sequence"] = stamped(delay_ms=3600000)
    elif operation == "await_result" and str((case.query or {}).get("id", "")).startswith("01a20b3e"):
        path["sequence"] = stamped(id=case.query["id"], keep_result=True)
    elif operation == "show_message_by_id" and str(path.get("id", "")).startswith("01a20b3e"):
        ask("POST", "/messages", {"destinations": [NAME], "body": 1, "id": path["id"]})
    elif operation in ("show_dead_letter", "discard_dead_letter") and path.get("sequence") in (1, "1"):
        path["sequence"] = dead_letter()
    elif operation == "cancel_message_by_idempotency_key" and (case.query or {}).get("idempotency_key") == "order-7":
        key = f"order-{os.urandom(8).hex()}"
        ask("POST", "/messages", {"destinations": [NAME], "body": 1, "idempotency_key": key})
        case.query["idempotency_key"] = key
    elif operation == "skip_head" and body.get("sequence") == 1:
        ask("POST", f"/destinations/{NAME}/purge", {})
        stamped()
        body["sequence"] = head()
    elif operation == "repair":
        ask("POST", f"/destinations/{NAME}/pause", {})
    elif operation == "roll_back_destination" and body.get("to") == 1:
        ask("PUT", f"/destinations/{NAME}", {**DEFINITION, "weight": 2})
        body["to"] = ask("GET", f"/destinations/{NAME}/versions").json()["items"][0]["version"]
    elif operation in ("remove_destination", "restore_destination"):
        ask("POST", f"/destinations/{NAME}/purge", {})
        ask("POST", f"/destinations/{NAME}/dead-letters/discard", {"all": True})
        if operation == "restore_destination":
            ask("DELETE", f"/destinations/{NAME}?force=true")
    elif operation in ("show_operation", "cancel_operation") and str(path.get("id", "")).startswith("01a20b3e"):
        path["id"] = ask("POST", f"/destinations/{NAME}/purge", {"dry_run": True}).json()["id"]


@schemathesis.hook
def after_call(context, case, response):
    operation = case.operation.definition.raw.get("operationId", "")
    CALLS.write(f"{operation} {response.status_code}\n")
