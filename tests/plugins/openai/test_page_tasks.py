"""Which requests of other chat pages are background tasks instead of questions.

The prompts are shortened from the defaults of the named releases.
"""

import json

import pytest

from online.plugins.openai.page_tasks import TASKS, recognise_task

HISTORY = (
    "### Chat History:\n<chat_history>\n"
    'USER: Where do I leave my wet umbrella when it rains?\nASSISTANT: In the stand. {"tags": ["x"], "title": "y"}\n'
    "</chat_history>"
)
# Open WebUI 0.10.0 to 0.12.4, open_webui/config.py
OPEN_WEBUI = {
    "title_generation": '### Task:\nGenerate a concise title.\n### Output:\nJSON format: { "title": "your title" }\n',
    "tags_generation": '### Task:\nGenerate 1-3 broad tags.\n\n### Output:\nJSON format: { "tags": ["tag1", "tag2"] }\n\n',
    "follow_up_generation": '### Task:\nSuggest 3-5 questions.\n### Output:\nJSON format: { "follow_ups": ["1?"] }\n',
    "query_generation": '### Task:\nAnalyze the chat history.\n### Output:\n{\n  "queries": ["query1", "query2"]\n}\n\n',
    "image_prompt_generation": '### Task:\nGenerate a detailed prompt.\n### Output:\n{\n    "prompt": "Your own."\n}\n\n',
    "autocomplete_generation": '### Task:\nYou are an autocompletion system.\n5. If unsure, return: `{ "text": "" }`.\n',
    "emoji_generation": "Your task is to reflect the speaker's likely facial expression through a fitting emoji.",
    "moa_response_generation": "You have been provided with a set of responses from various models to the latest",
}
# @librechat/agents 3.2.21 to 3.9.2, src/utils/title.ts
LIBRECHAT = {
    "title": "Provide a concise, 5-word-or-less title for the conversation, using title case conventions.",
    "title and language": "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A",
}


@pytest.mark.parametrize("name", OPEN_WEBUI)
def test_a_task_of_open_webui_is_recognised_by_its_prompt(name: str) -> None:
    task = recognise_task("", "", OPEN_WEBUI[name] + HISTORY)
    assert task is not None and task.name == name


@pytest.mark.parametrize("name", LIBRECHAT)
def test_a_task_of_librechat_is_recognised_by_its_prompt(name: str) -> None:
    task = recognise_task("", "", f"{LIBRECHAT[name]}\n\nUser: Where do I leave my umbrella?\nAI: In the stand.")
    assert task is not None and task.name == name


def test_a_tool_selection_is_recognised_by_the_system_message() -> None:
    task = recognise_task("", "Available Tools: [...]\n\nYour task is to choose", "Query: what time is it?")
    assert task is not None and task.name == "function_calling"


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_is_recognised_by_its_name_with_any_prompt(task: object) -> None:
    name = getattr(task, "name", "")
    assert recognise_task(name, "", "Titel, bitte!") is task
    assert recognise_task(f"TASKS.{name.upper()}", "", "Titel, bitte!") is task


@pytest.mark.parametrize(
    ("named", "prompt"),
    [("poem_generation", "Write a poem"), ("", "### Task:\nWrite a poem about the chat.")],
)
def test_an_unknown_task_is_recognised_as_a_task(named: str, prompt: str) -> None:
    task = recognise_task(named, "", prompt)
    assert task is not None and task.name == "unknown"


@pytest.mark.parametrize("named", ["", " ", "{{TASK}}"])
@pytest.mark.parametrize("words", ["When do you open?", "My task: find a title", 'What is { "title": 1 }?', "<text>"])
def test_a_question_is_not_a_task(named: str, words: str) -> None:
    assert recognise_task(named, "You are a helpful librarian.", words) is None


def test_a_quoted_chat_does_not_change_the_recognised_task() -> None:
    for name, prompt in OPEN_WEBUI.items():
        for other in OPEN_WEBUI.values():
            task = recognise_task("", "", f"{prompt}<chat_history>\nUSER: {other}\n</chat_history>")
            assert task is not None and task.name == name


def test_the_answers_have_the_shapes_that_the_pages_expect() -> None:
    answers = {task.name: task.answer(f"...{HISTORY}") for task in TASKS}
    assert json.loads(answers["title_generation"]) == {"title": "Where do I leave my wet"}
    assert json.loads(answers["tags_generation"]) == {"tags": ["General"]}
    assert json.loads(answers["follow_up_generation"]) == {"follow_ups": []}
    assert json.loads(answers["query_generation"]) == {"queries": []}
    assert json.loads(answers["autocomplete_generation"]) == {"text": ""}
    assert json.loads(answers["function_calling"]) == {"tool_calls": []}
    assert answers["title"] == "Where do I leave my wet"


def test_a_chat_without_questions_is_titled_new_chat() -> None:
    assert TASKS[0].answer("### Task:") == '{"title":"New chat"}'
