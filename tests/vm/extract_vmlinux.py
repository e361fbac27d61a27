"""extract_vmlinux.py VMLINUZ VMLINUX: the uncompressed kernel out of a bootable image. QEMU boots it seconds sooner."""
import lzma
import subprocess
import sys

XZ, ZSTD = b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"


def unpack(image):
    start = image.find(XZ)
    if start >= 0:
        return lzma.LZMADecompressor().decompress(image[start:])
    start = image.find(ZSTD)
    if start >= 0:
        return subprocess.run(["zstd", "-dcq"], input=image[start:], stdout=subprocess.PIPE, check=False).stdout
    return b""


def main():
    source, target = sys.argv[1:]
    with open(source, "rb") as file:
        kernel = unpack(file.read())
    if kernel[:4] != b"\x7fELF":
        sys.exit(f"{source}: no kernel compressed by xz or zstd in it")
    with open(target, "wb") as file:
        file.write(kernel)


if __name__ == "__main__":
    main()
