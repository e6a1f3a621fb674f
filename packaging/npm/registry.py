"""Serves DIST/npm as an npm registry and DIST/pypi as a simple index, for tests: registry.py DIST EMPTY_FOLDER."""
import functools, hashlib, http.server, json, pathlib, sys, tarfile

dist, site = map(pathlib.Path, sys.argv[1:])
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
url = f"http://127.0.0.1:{server.server_port}"

(site / "files").symlink_to(dist.resolve())
(site / "@reseq").mkdir()
for file in dist.glob("npm/*.tgz"):
    with tarfile.open(file) as tar:
        about = json.load(tar.extractfile("package/package.json"))
    name, version = about["name"], about["version"]
    about["dist"] = {"tarball": f"{url}/files/npm/{file.name}", "shasum": hashlib.sha1(file.read_bytes()).hexdigest()}
    document = {"name": name, "dist-tags": {"latest": version}, "versions": {version: about}}
    (site / name).write_text(json.dumps(document))
index = site / "simple/reseq-server/index.html"
index.parent.mkdir(parents=True)
index.write_text("".join(f'<a href="/files/pypi/{file.name}">{file.name}</a>\n' for file in dist.glob("pypi/*.whl")))

print(url, flush=True)
server.serve_forever()
