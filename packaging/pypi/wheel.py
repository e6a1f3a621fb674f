"""Builds a wheel: wheel.py VERSION ARCHITECTURE PROGRAMS LICENSE OUT. The same input gives the same bytes."""
import base64, hashlib, os, pathlib, re, sys, time, zipfile

version, architecture = sys.argv[1:3]
programs, license_file, out = map(pathlib.Path, sys.argv[3:])
info = f"reseq_server-{version}.dist-info"
binaries = {f"reseq_server/bin/{name}": (programs / name).read_bytes() for name in ("reseq", "redis-server")}
# The tag names the newest glibc that a program asks for, at least 2.17.
glibc = max([17, *(int(minor) for data in binaries.values() for minor in re.findall(rb"GLIBC_2\.(\d+)", data))])
tag = f"py3-none-manylinux_2_{glibc}_{architecture}"
metadata = f"""Metadata-Version: 2.4
Name: reseq-server
Version: {version}
Summary: The server of Reseq, with its Redis: process messages in parallel, deliver them in order
License-Expression: MIT AND BSD-3-Clause
License-File: LICENSE
License-File: LICENSE.valkey
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{pathlib.Path(__file__).with_name("README.md").read_text()}"""
run = "reseq_server.__main__:main"
files = binaries | {
    "reseq_server/__init__.py": b"",
    "reseq_server/__main__.py": pathlib.Path(__file__).with_name("__main__.py").read_bytes(),
    f"{info}/METADATA": metadata.encode(),
    f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: reseq\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    f"{info}/entry_points.txt": "[console_scripts]\nreseq = {0}\nreseq-server = {0}\n".format(run).encode(),
    f"{info}/licenses/LICENSE": license_file.read_bytes(),
    f"{info}/licenses/LICENSE.valkey": (programs / "LICENSE.valkey").read_bytes(),
}
hashes = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=") for name, data in files.items()}
record = [f"{name},sha256={hashes[name].decode()},{len(data)}\n" for name, data in files.items()]
files[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()

wheel = out / f"reseq_server-{version}-{tag}.whl"
with zipfile.ZipFile(wheel, "w") as archive:
    for name, data in files.items():
        entry = zipfile.ZipInfo(name, time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6])
        entry.external_attr = (0o100755 if name in binaries else 0o100644) << 16
        archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 6)
print(f"pypi: {wheel.name}, {wheel.stat().st_size} bytes", file=sys.stderr)
