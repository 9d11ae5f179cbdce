"""Tasks: what other chat pages request in addition to their users' questions, such as a title, tags or follow-up questions.

A task is answered in the shape that its page reads. It is not a question: it makes no prediction, and nothing is learned from
it. A task is recognised by the header X-Task (Open WebUI: `{{TASK}}`), by `metadata.task` in the body, or by the beginning of its
prompt.

    task                       beginning of its prompt                             answer
    title_generation           Open WebUI "### Task:" ... "title":                 {"title": the question's first words}
    tags_generation            Open WebUI "### Task:" ... "tags":                  {"tags": ["General"]}
    follow_up_generation       Open WebUI "### Task:" ... "follow_ups":            {"follow_ups": []}
    query_generation           Open WebUI "### Task:" ... "queries":               {"queries": []}
    image_prompt_generation    Open WebUI "### Task:" ... "prompt":                {"prompt": the question}
    autocomplete_generation    Open WebUI "### Task:" ... "text":                  {"text": ""}
    emoji_generation           Open WebUI "Your task is to reflect the speaker's"  a speech balloon
    function_calling           Open WebUI "Available Tools:", a system message     {"tool_calls": []}
    moa_response_generation    Open WebUI "You have been provided with a set of"   that it does not merge answers
    title                      LibreChat  "... 5-word-or-less title ..."           the question's first words
    title and language         LibreChat  "Analyze this conversation and provide"  {"language": "", "title": ...}
    any other                  an unknown X-Task; "### Task:"                      that it only answers questions

The prompts are the defaults of Open WebUI 0.10.0 to 0.12.4 and of LibreChat's @librechat/agents 3.2 to 3.9.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import orjson

TITLE_WORDS = 6
NO_QUESTION = "I only answer questions."
USER_LINE = re.compile(r"^[^\S\n]*(?:user|human): *(\S.*)$", re.IGNORECASE | re.MULTILINE)  # looks at each line once


def to_json(key: str, value: object) -> str:
    """Return an object with one key as JSON."""
    return orjson.dumps({key: value}).decode()


def find_question(prompt: str) -> str:
    """Return the first message of the user in the conversation that a prompt quotes; "" where it quotes none."""
    quoted = prompt.partition("<chat_history>")[2] or prompt
    found = USER_LINE.search(quoted)
    return found.group(1).strip() if found else ""


def make_title(prompt: str) -> str:
    """Return the first words of the question as a title."""
    words = find_question(prompt).split()
    return " ".join(words[:TITLE_WORDS]) or "New chat"


@dataclass(frozen=True, slots=True)
class PageTask:
    """A task and how to answer it.

    prompt: matches its prompt, in the user's message or (with `system`) in the system's. answer: from the prompt.
    """

    name: str
    prompt: re.Pattern[str]
    answer: Callable[[str], str]
    system: bool = False


def open_webui_prompt(key: str) -> re.Pattern[str]:
    """Return the prompts of Open WebUI differ in the key of the JSON that they request."""
    return re.compile(r'\A### Task:\n.*\{\s*"' + key + r'":', re.DOTALL)


def starts_with(words: str) -> re.Pattern[str]:
    """Return a pattern of a prompt's first words."""
    return re.compile(r"\A\s*" + words)


TASKS = (
    PageTask("title_generation", open_webui_prompt("title"), lambda prompt: to_json("title", make_title(prompt))),
    PageTask("tags_generation", open_webui_prompt("tags"), lambda _: to_json("tags", ["General"])),
    PageTask("follow_up_generation", open_webui_prompt("follow_ups"), lambda _: to_json("follow_ups", [])),
    PageTask("query_generation", open_webui_prompt("queries"), lambda _: to_json("queries", [])),
    PageTask(
        "image_prompt_generation", open_webui_prompt("prompt"), lambda prompt: to_json("prompt", find_question(prompt))
    ),
    PageTask("autocomplete_generation", open_webui_prompt("text"), lambda _: to_json("text", "")),
    PageTask(
        "emoji_generation",
        starts_with("Your task is to reflect the speaker's likely facial expression"),
        lambda _: "💬",
    ),
    PageTask("function_calling", starts_with("Available Tools:"), lambda _: to_json("tool_calls", []), system=True),
    PageTask(
        "moa_response_generation",
        starts_with("You have been provided with a set of responses from various models"),
        lambda _: "I merge no answers of others.",
    ),
    PageTask("title", starts_with(r"(?:Please generate|Provide) a concise, 5-word-or-less title"), make_title),
    PageTask(
        "title and language",
        starts_with(r"Analyze this conversation and provide:\s+1\. The detected language"),
        lambda prompt: orjson.dumps({"language": "", "title": make_title(prompt)}).decode(),
    ),
)
TASK_NAMES = {task.name for task in TASKS}
UNKNOWN = PageTask("unknown", starts_with("### Task:"), lambda _: NO_QUESTION)


def recognise_task(name: str, system: str, prompt: str) -> PageTask | None:
    """Return the task that a request is; None for a question.

    name: from the header or the metadata. system, prompt: the beginnings of the last messages of these roles.
    """
    name = name.strip().lower().removeprefix("tasks.")
    if name and "{{" not in name:  # an Open WebUI that does not know the variable sends the placeholder
        return next((task for task in TASKS if task.name == name), UNKNOWN)
    instructions = prompt.partition("<chat_history>")[0]  # the quoted chat must not decide
    return next(
        (task for task in (*TASKS, UNKNOWN) if task.prompt.search(system if task.system else instructions)), None
    )
