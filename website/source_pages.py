r"""Pages that show a file of the repository, or what is in a folder."""

import ast
from pathlib import Path

# The search is for what is written about the code.
HEAD = "---\nsearch: {exclude: true}\n---\n\n"
LANGUAGES = {".py": "python", ".toml": "toml", ".bib": "bibtex"}


def source_page(path: Path, name: str) -> str:
    r"""The file with numbered lines; a Markdown file as it is."""
    text = path.read_text()
    if path.suffix == ".md":
        return HEAD + text
    language = LANGUAGES.get(path.suffix, "text")
    return f'{HEAD}# `{name}`\n\n~~~~{language} linenums="1"\n{text}\n~~~~\n'


def folder_page(path: Path, name: str) -> str:
    r"""The folder's README, its settings and a list of its files."""
    readme, settings = path / "README.md", path / "config.toml"
    parts = [readme.read_text() if readme.exists() else f"# `{name}`"]
    if settings.exists():
        parts.append(f"## Settings\n\n~~~~toml\n{settings.read_text()}\n~~~~")
    files = sorted(
        file.relative_to(path).as_posix()
        for file in path.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    )
    parts.append("## Files\n\n" + "\n".join(f"- `{name}/{file}`" for file in files))
    return HEAD + "\n\n".join(parts) + "\n"


def definition_line(path: Path, name: str) -> int | None:
    r"""Where the file defines ``name``, or ``Class.method``; None where it does not."""
    nodes: list[ast.stmt] = ast.parse(path.read_text()).body
    line = None
    for part in name.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef)
        found = [node for node in nodes if isinstance(node, kinds) and node.name == part]
        if not found:
            return None
        line, nodes = found[0].lineno, found[0].body
    return line
