"""Runs the rendered chart on this machine, as a kubelet would, and restarts it while messages flow.

Usage: roll.py HELM CHART EXAMPLE RESEQ REDIS_SERVER. Each pod is a process with an address of its own (127.77.0.N), and
the user, the read-only root and the variables of its manifest. Each workload is updated as its strategy says. Then the
receiver must have got every message once, and in the order of its key. Needs root, unshare and setpriv.
"""
import http.client, http.server, os, re, shutil, signal, socket, subprocess, sys, tempfile, threading, time
import yaml

HELM, CHART, EXAMPLE, RESEQ, REDIS = sys.argv[1:]
TOKEN = "token-of-the-rolling-restart"
# Arguments: the volumes, --, the command. Only the volumes are writable.
JAIL = """while [ "$1" != -- ]; do mount --bind "$1" "$1"; shift; done; shift; mount -o remount,bind,ro / && exec \
setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@" """
work = tempfile.mkdtemp(prefix="reseq-roll-")
os.chmod(work, 0o755)
for program in (RESEQ, REDIS):
    shutil.copy(program, work)
pods, endpoints, stopped, count, retries = {}, set(), threading.Event(), 0, 0
sent, got = {f"key-{k}": 0 for k in range(4)}, {f"key-{k}": [] for k in range(4)}


def wait(what, seconds, condition):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s; the logs are in {work}"
        time.sleep(0.05)


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        got[self.headers["reseq-key"]].append(int(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Pod:
    def __init__(self, spec, container, output=None):
        global count
        count += 1
        self.ip, self.spec, self.container, self.mounts, volumes = f"127.77.0.{count}", spec, container, {}, []
        for mount in container["volumeMounts"]:
            volume = next((v for v in spec["volumes"] if v["name"] == mount["name"]), {})
            directory = f"{work}/{mount['name']}" + (f"-{count}" if volume else "")
            os.makedirs(directory, exist_ok=True)
            if "configMap" in volume:
                for file, text in objects["ConfigMap", volume["configMap"]["name"]]["data"].items():
                    open(f"{directory}/{file}", "w").write(text)
            else:  # a claimed volume: its root belongs to root and the group of fsGroup
                os.chown(directory, 0, spec["securityContext"]["fsGroup"])
                os.chmod(directory, 0o2775)
                volumes.append(directory)
            self.mounts[mount["mountPath"]] = directory
        env = {"PATH": f"{work}:/usr/bin:/bin", "USER_ID": str(spec["securityContext"]["runAsUser"])}
        if not output:
            env["RESEQ_HTTP_LISTEN"] = f"{self.ip}:8080"  # pods without the role ingest share this machine's loopback
        for variable in container["env"]:
            secret = variable.get("valueFrom", {}).get("secretKeyRef")
            value = secrets[secret["name"], secret["key"]] if secret else self.here(variable["value"])
            env[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda name: env[name[1]], value)
        self.log = f"{work}/pod-{count}.log"
        command = ["reseq", *map(self.here, container["args"])]
        self.process = subprocess.Popen(["unshare", "--mount", "sh", "-c", JAIL, "pod", *volumes, "--", *command],
                                        env=env, stdout=output, stderr=open(self.log, "w"))

    def here(self, text):
        """The paths and addresses in a text, as they are on this machine."""
        text = re.sub(r"reseq(-admin)?\.messages\.svc", min(endpoints, default=""), text).replace("0.0.0.0", self.ip)
        for inside, outside in self.mounts.items():
            text = text.replace(inside + "/", outside + "/")
        return text

    def is_ready(self):
        assert self.process.poll() is None, f"a pod exited with {self.process.returncode}: see {self.log}"
        probe = self.container["readinessProbe"]["httpGet"]
        port = next(p["containerPort"] for p in self.container["ports"] if p["name"] == probe["port"])
        try:
            return request(self.ip, port, "GET", probe["path"]) == 200
        except OSError:
            return False

    def stop(self):
        # Others learn a second later that they must not use the pod, as in a cluster.
        threading.Timer(1, lambda: endpoints.discard(self.ip)).start()
        time.sleep(self.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0))
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(self.spec["terminationGracePeriodSeconds"])
        assert code == 0, f"a pod exited with {code} after SIGTERM: see {self.log}"


def request(ip, port, *arguments):
    connection = http.client.HTTPConnection(ip, port, timeout=20)
    connection.request(*arguments)
    return connection.getresponse().status


def start(workload):
    spec = workload["spec"]["template"]["spec"]
    pod = Pod(spec, spec["containers"][0])
    pods[pod.ip] = pod
    wait(f"{pod.ip} becomes ready", 150, pod.is_ready)
    if any(port["name"] == "http" for port in pod.container["ports"]):
        endpoints.add(pod.ip)
    return pod


def produce(key):
    global retries
    while not stopped.is_set():
        headers = {"authorization": f"Bearer {TOKEN}", "reseq-key": key, "idempotency-key": f"{key}-{sent[key]}"}
        ips, status = sorted(endpoints), 503
        try:
            ip = ips[sent[key] % len(ips)] if ips else "127.77.0.254"
            status = request(ip, 8080, "POST", "/v1/destinations/erp/messages", str(sent[key]), headers)
        except (OSError, http.client.HTTPException):
            pass
        assert status in (200, 202, 503), f"unexpected status {status}"
        retries += status == 503
        sent[key] += status != 503
        time.sleep(0.1 if status == 503 else 0.01)


receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=receiver.serve_forever, daemon=True).start()
open(f"{work}/reseq.toml", "w").write(f"""
outgoing.allow = ["127.0.0.1:{receiver.server_port}"]
[[destination]]
name = "erp"
url = "http://127.0.0.1:{receiver.server_port}/in"
ordering = "key"
transform = {{ kind = "jq", expression = "." }}
""")
helm = [HELM, "template", "reseq", CHART, "--namespace=messages", f"--values={EXAMPLE}",
        f"--set-file=config={work}/reseq.toml"]
resources = list(yaml.safe_load_all(subprocess.run(helm, check=True, stdout=subprocess.PIPE).stdout))
objects = {(o["kind"], o["metadata"]["name"]): o for o in resources if o}
workloads = [o for o in objects.values() if o["kind"] in ("Deployment", "StatefulSet")]
with socket.create_server(("127.0.0.1", 0)) as free:
    port = str(free.getsockname()[1])
secrets = {("reseq", "admin-token"): TOKEN, ("reseq", "redis-url"): f"redis://:secret@127.0.0.1:{port}"}
redis = subprocess.Popen(
    [f"{work}/redis-server", "--port", port, "--bind", "127.0.0.1", "--requirepass", "secret", "--appendonly", "yes",
     "--save", "", "--appendfsync", "no", "--maxmemory-policy", "noeviction", "--dir", work],
    stdout=open(f"{work}/redis.log", "w"))
try:
    running = {w["metadata"]["name"]: [start(w) for _ in range(w["spec"]["replicas"])] for w in workloads}
    print(f"{count} pods are ready", flush=True)
    test = objects["Pod", "reseq-test"]["spec"]
    for container in test["initContainers"] + test["containers"]:
        pod = Pod(test, container, sys.stdout)
        code = pod.process.wait(test["activeDeadlineSeconds"])
        assert code == 0, f"helm test: {container['name']} exited with {code}: see {pod.log}"
    producers = [threading.Thread(target=produce, args=[key]) for key in sent]
    for thread in producers:
        thread.start()
    for workload in workloads:
        name, before, surge = workload["metadata"]["name"], sum(sent.values()), workload["kind"] == "Deployment"
        for old in running[name]:
            if surge:
                start(workload)
            old.stop()
            if not surge:
                start(workload)
        time.sleep(2)
        print(f"{name}: restarted while {sum(sent.values()) - before} messages arrived", flush=True)
    stopped.set()
    for thread in producers:
        thread.join()
    wait("all messages are delivered", 30, lambda: sum(map(len, got.values())) >= sum(sent.values()))
    time.sleep(1)  # a repeat would follow
    for key, numbers in got.items():
        assert numbers == list(range(sent[key])), f"{key}: lost, repeated or out of order: {numbers}"
    print(f"{sum(sent.values())} messages delivered once, in order; producers repeated {retries} requests", flush=True)
    assert not surge or not retries, "pods refused requests while a Deployment was updated"
finally:
    stopped.set()
    for process in [pod.process for pod in pods.values()] + [redis]:
        process.terminate()
        process.wait()
shutil.rmtree(work)
