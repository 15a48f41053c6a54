"""Runs notebooks in a kernel of Jupyter and writes each as one page of HTML, with no script or style of another host.

Usage: render.py [NOTEBOOK...]; without any, all in this folder.
"""

import re
import sys
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor
from pygments.formatters import HtmlFormatter

FOLDER = Path(__file__).parent
STYLE = """
body { max-width: 1200px; margin: 24px auto; padding: 0 16px; font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; }
pre { font-size: 12.5px; line-height: 1.4; overflow-x: auto; margin: 0; }
.input_area, .jp-CodeMirrorEditor { background: #f6f7f9; border: 1px solid #d5dae1; padding: 8px; }
.prompt, .jp-InputPrompt, .jp-OutputPrompt { display: none; }
.jp-Cell, .cell { margin: 12px 0; }
.jp-OutputArea-child { margin: 8px 0; overflow-x: auto; }
img, svg { max-width: 100%; height: auto; }
"""
PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>{style}</style></head>
<body>
{body}
</body>
</html>
"""


def render(path: Path) -> None:
    """Run a notebook and write its page."""
    notebook = nbformat.read(path, as_version=4)
    ExecutePreprocessor(timeout=120, kernel_name="python3").preprocess(notebook, {"metadata": {"path": str(path.parent)}})
    body, _ = HTMLExporter(template_name="basic", exclude_anchor_links=True).from_notebook_node(notebook)
    # What differs from run to run.
    body = re.sub(r' id="cell-id=[^"]*"', "", body)
    body = "\n".join(line.rstrip() for line in body.splitlines())
    title = notebook.cells[0].source.splitlines()[0].lstrip("# ")
    style = STYLE + HtmlFormatter(style="default").get_style_defs(".highlight")
    page = path.with_suffix(".html")
    page.write_text(PAGE.format(title=title, style=style, body=body), encoding="utf-8")
    print(f"{page.name}: {page.stat().st_size} bytes")


for name in sys.argv[1:] or sorted(FOLDER.glob("*.ipynb")):
    render(Path(name))
