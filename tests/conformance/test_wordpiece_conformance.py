"""The tokens of a text in a browser are those of the service's tokenizer."""

import json
import random
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest

from online.models.encoders import minilm
from tests.support import skip_or_fail

FRONTEND = Path(__file__).parents[2] / "frontend"
TEXTS = (
    *("When do you open?", "I can't log in — naïve café", "[SEP] hi [MASK]x", "[sep]", "a" * 100, "a" * 101),
    *(
        "x " * 400,
        "ΣΑΣ Σ",
        "İstanbul ıI",
        "你好world",
        "👍🏽 ok",
        "a\x1fb\u2028c",
        "ﬁ ﬀ Ǆ ǅ",
        "e\u0301é",
        "\ufffd\0\u200b",
        "",
    ),
)
# stdin: {"vocabulary": text, "texts": [text]}; stdout: the ids of each
SCRIPT = """
import { readFileSync } from 'node:fs';
import ts from 'typescript';
const code = ts.transpileModule(readFileSync('packages/text-encoder/src/wordpiece.ts', 'utf8'), {
  compilerOptions: { module: 'ESNext', target: 'ESNext' },
}).outputText;
const { WordPiece } = await import('data:text/javascript,' + encodeURIComponent(code));
const { vocabulary, texts } = JSON.parse(readFileSync(0, 'utf8'));
const tokens = new WordPiece(vocabulary);
console.log(JSON.stringify(texts.map((text) => tokens.encode(text))));
"""


def encode_in_node(texts: list[str]) -> list[list[int]]:
    node = shutil.which("node")
    if node is None or not (FRONTEND / "node_modules" / "typescript").exists():
        skip_or_fail("no node on PATH, or the packages of the page are not installed: make page")
    vocabulary = (minilm.package_folder() / "vocab.txt").read_text(encoding="utf-8")
    command = [str(node), "--input-type=module", "-e", SCRIPT]
    sent = json.dumps({"vocabulary": vocabulary, "texts": texts})
    ran = subprocess.run(command, input=sent, cwd=FRONTEND, check=True, timeout=60, capture_output=True, text=True)
    found: list[list[int]] = json.loads(ran.stdout)
    return found


def encode_in_service(texts: list[str]) -> list[list[int]]:
    tokenizer = minilm.tokenizer()
    return [tokenizer.encode(" ".join(text.split())).ids for text in texts]


def draw_texts(count: int) -> list[str]:
    """Texts of letters that Unicode has had since version 3.2, so that every table knows them."""
    drawn = random.Random(3)
    known = [chr(c) for c in range(0x10000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")]
    letters = "abc deES ,.!"
    return [
        "".join(drawn.choice(known if drawn.random() < 0.4 else letters) for _ in range(drawn.randint(1, 30)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("texts", [[*TEXTS], draw_texts(2_000)], ids=["chosen", "drawn"])
def test_a_text_has_the_tokens_of_the_services_tokenizer(texts: list[str]) -> None:
    pairs = zip(texts, encode_in_node(texts), encode_in_service(texts), strict=True)
    assert [(text, got, expected) for text, got, expected in pairs if got != expected] == []
