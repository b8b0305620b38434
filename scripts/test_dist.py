"""Files of a release agree with pages and workspace, archives are reproducible, and checks find errors."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import dist
import dist_check
import render_chart
from dist_probe import Wrong

SYSTEMD = dist.ROOT / "deploy/systemd"


class Files(unittest.TestCase):
    def test_the_unit_of_the_package_matches_the_docs_page(self):
        page = (dist.ROOT / "docs/gateway-on-systemd.md").read_text()
        unit = re.search(r"# /etc/systemd/system/weir-gateway.service\n(.*?)```", page, re.DOTALL)[1]
        self.assertEqual((SYSTEMD / "weir-gateway.service").read_text(), unit.replace("/usr/local/bin/", "/usr/bin/"))
        rotation = re.search(r"# /etc/logrotate.d/weir-gateway\n(.*?)```", page, re.DOTALL)[1]
        self.assertEqual((SYSTEMD / "weir-gateway.logrotate").read_text(), rotation)

    def test_chart_and_manifests_have_the_version_of_the_workspace(self):
        chart = (render_chart.CHART / "Chart.yaml").read_text()
        self.assertEqual(chart, render_chart.with_version(chart, dist.version()), "run scripts/render_chart.py")
        self.assertIn(f'image: "weir-gateway:{dist.version()}"', render_chart.MANIFESTS.read_text())

    def test_sources_of_archives_exist(self):
        for source in dist.DOCUMENTS:
            self.assertTrue((dist.ROOT / source).is_file(), source)


class Archives(unittest.TestCase):
    def test_the_same_files_make_the_same_archive(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(dist, "OUT", Path(folder)):
            names = ["a.tar.gz", "b.tar.gz"]
            for name in names:
                program = Path(folder) / "program"
                program.unlink(missing_ok=True)
                program.write_text("same")
                dist.archive(name, "top", {"bin/program": program, "LICENSE": dist.ROOT / "LICENSE"})
            first, second = ((Path(folder) / name).read_bytes() for name in names)
        self.assertEqual(first, second)


class Checks(unittest.TestCase):
    def test_programs_that_need_a_loader_or_contain_symbols_are_rejected(self):
        for options, reason in ((["-s"], "needs a dynamic loader"), (["-static"], "is not stripped")):
            with tempfile.TemporaryDirectory() as folder, self.subTest(reason):
                (Path(folder) / "bin").mkdir()
                for program in dist.PROGRAMS:
                    subprocess.run(["cc", *options, "-x", "c", "-", "-o", f"bin/{program}"], cwd=folder, input=b"int main(void) { return 0; }", check=True)
                with self.assertRaisesRegex(Wrong, reason):
                    dist_check.static(Path(folder))

    def test_a_changed_file_is_rejected(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "file").write_text("changed")
            (Path(folder) / "SHA256SUMS").write_text(f"{'0' * 64}  file\n")
            with self.assertRaisesRegex(Wrong, "another checksum"):
                dist_check.checksums(Path(folder))
