"""Archives that are written again with other entries and a matching digest."""

import hashlib
import zipfile


def entries_of(path):
    with zipfile.ZipFile(path) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def write_entries(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    sign(path)


def add_entry(path, name, content):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, content)
    sign(path)


def sign(path):
    """Make the digest match."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"0" * 64
    content = path.read_bytes()[:-64]
    path.write_bytes(content + hashlib.blake2b(content, digest_size=32).hexdigest().encode())
