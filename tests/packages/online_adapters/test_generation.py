"""Answers that grow together are those that each would be alone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

import pytest

from online_adapters.adapter_folder import BASE, AdapterFolder
from online_adapters.answer_text import AnswerText
from tests.packages.online_adapters.tiny_model import make_random_adapter
from tests.support import until

if TYPE_CHECKING:
    from online_adapters.adapted_model import AdaptedModel
    from online_adapters.batch import GenerationJob

TOKENS = 30
QUESTIONS = ["Hi", "How tall is the tower?", "a", "Why is the sky blue, and the sea?", "?", "Tell me more of it."]


@pytest.fixture
def model(random_model: Path, folder: AdapterFolder, tmp_path: Path) -> "AdaptedModel":
    from online_adapters.adapted_model import AdaptedModel

    for seed in range(3):
        folder.add(make_random_adapter(random_model, tmp_path / str(seed), seed))
    return AdaptedModel(random_model, folder)


def generate_alone(base: Path, folder: AdapterFolder, name: str, question: str) -> str:
    """The answer as transformers and PEFT generate it."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(base), AutoModelForCausalLM.from_pretrained(base)
    if name != BASE:
        model = PeftModel.from_pretrained(model, str(folder.find(name)))
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=False
    )
    with torch.inference_mode():
        ids = model.generate(input_ids=prompt, max_new_tokens=TOKENS, do_sample=False)
    return str(tokenizer.decode(ids[0, prompt.shape[1] :], skip_special_tokens=True))


def create_job(model: "AdaptedModel", question: str, texts: Queue[str]) -> "GenerationJob":
    """A job that puts its text into the queue once it has ended."""
    from online_adapters.batch import AnswerPiece, GenerationJob
    from online_adapters.sampling import TokenSampler

    parts = list[str]()

    def emit(piece: AnswerPiece) -> None:
        parts.append(piece.text)
        if piece.error is not None or piece.finish is not None:
            texts.put(repr(piece.error) if piece.error else "".join(parts))

    prompt = model.encode_chat([{"role": "user", "content": question}])
    return GenerationJob(prompt, TOKENS, AnswerText(model.decode), TokenSampler(), emit)


def test_answers_of_batches_that_join_are_those_of_transformers(
    model: "AdaptedModel", random_model: Path, folder: AdapterFolder
) -> None:
    from online_adapters.generator import Generator

    generator = Generator(model, max_rows=4)
    wanted = [(name, question) for question in QUESTIONS for name in (BASE, *folder.list_names())]

    def ask(name: str, question: str) -> str:
        texts = Queue[str]()
        generator.submit(create_job(model, question, texts), name)
        return texts.get(timeout=60)

    generator.start()
    with ThreadPoolExecutor(9) as pool:
        answers = [*pool.map(lambda each: ask(*each), wanted)]
    until(lambda: not model.loaded, what="the unloading")
    generator.stop()
    alone = [generate_alone(random_model, folder, *each) for each in wanted]
    assert answers == alone and len(set(answers)) > len(wanted) / 2


def test_a_request_keeps_the_adapter_that_was_in_force_when_it_came(
    model: "AdaptedModel", random_model: Path, folder: AdapterFolder
) -> None:
    from online_adapters.generator import Generator

    first, second, _ = folder.list_names()
    generator, texts = Generator(model), Queue[str]()
    generator.start()
    generator.switch(first).result(30)
    assert generator.submit(create_job(model, QUESTIONS[1], texts)) == first
    generator.switch(second).result(30)
    assert generator.submit(create_job(model, QUESTIONS[1], later := Queue[str]())) == second
    assert texts.get(timeout=30) == generate_alone(random_model, folder, first, QUESTIONS[1])
    assert later.get(timeout=30) == generate_alone(random_model, folder, second, QUESTIONS[1])
    until(lambda: model.loaded == {second}, what="the unloading of the first")
    generator.stop()


def test_requests_of_one_adapter_do_not_wait_for_those_of_another(model: "AdaptedModel", folder: AdapterFolder) -> None:
    from online_adapters.generator import Generator

    generator, many, one = Generator(model, max_rows=1), Queue[str](), Queue[str]()
    for _ in range(20):
        generator.submit(create_job(model, QUESTIONS[1], many), BASE)
    generator.submit(create_job(model, QUESTIONS[1], one), folder.list_names()[0])
    generator.start()
    one.get(timeout=60)
    assert many.qsize() <= 2, "the others have not been answered yet"
    generator.stop()
    assert many.qsize() == 20, "what was submitted is answered before the end"


def test_a_text_grows_by_whole_characters(random_model: Path) -> None:
    from online_adapters.adapted_model import load_tokenizer

    tokenizer = load_tokenizer(random_model)
    written = "Grüße, 世界 👍 fjord!"
    text = AnswerText(lambda ids: str(tokenizer.decode(ids)))
    pieces = [text.add(id) for id in tokenizer(written)["input_ids"]]
    assert "".join(pieces) + text.finish() == written and all("\ufffd" not in piece for piece in pieces)


def test_a_stop_sequence_in_pieces_is_held_back() -> None:
    text = AnswerText(lambda ids: "".join(map(chr, ids)), stop=("END", "NEVER"))
    pieces = [text.add(ord(letter)) for letter in "an EN, then END and more"]
    assert "".join(pieces) == "an EN, then " and text.is_stopped
    open_end = AnswerText(lambda ids: "".join(map(chr, ids)), stop=("END",))
    assert [open_end.add(ord("E")), open_end.add(ord("N")), open_end.finish()] == ["", "", "EN"]
