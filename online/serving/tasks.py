"""What other chat pages ask beside their users' questions: a title, tags, what to ask next.

Such a task is recognised and answered in the shape its page reads. It is no question: it makes no prediction, and nothing
can be learned from it. Recognised by the header X-Task (Open WebUI: `{{TASK}}`) or `metadata.task` in the body, or by how
its prompt begins.

    task                       recognised by its prompt                            answered
    title_generation           Open WebUI "### Task:" ... "title":                 {"title": the question's first words}
    tags_generation            Open WebUI "### Task:" ... "tags":                  {"tags": ["General"]}
    follow_up_generation       Open WebUI "### Task:" ... "follow_ups":            {"follow_ups": []}
    query_generation           Open WebUI "### Task:" ... "queries":               {"queries": []}
    image_prompt_generation    Open WebUI "### Task:" ... "prompt":                {"prompt": the question}
    autocomplete_generation    Open WebUI "### Task:" ... "text":                  {"text": ""}
    emoji_generation           Open WebUI "Your task is to reflect the speaker's"  a speech balloon
    function_calling           Open WebUI "Available Tools:", a system message     {"tool_calls": []}
    moa_response_generation    Open WebUI "You have been provided with a set of"   that it merges no answers
    title                      LibreChat  "... 5-word-or-less title ..."           the question's first words
    title and language         LibreChat  "Analyze this conversation and provide"  {"language": "", "title": ...}
    any other                  an X-Task nobody knows; "### Task:"                 that it only answers questions

The prompts are the defaults of Open WebUI 0.10.0 to 0.12.4 and of LibreChat's @librechat/agents 3.2 to 3.9.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import orjson

TITLE_WORDS = 6
NO_QUESTION = "I only answer questions."
SPOKEN = re.compile(r"^\s*(?:user|human): *(\S.*)$", re.IGNORECASE | re.MULTILINE)


def as_json(key: str, value: object) -> str:
    return orjson.dumps({key: value}).decode()


def question_in(prompt: str) -> str:
    """The first thing the user said in the conversation that a prompt quotes; "" where it quotes none."""
    quoted = prompt.partition("<chat_history>")[2] or prompt
    found = SPOKEN.search(quoted)
    return found.group(1).strip() if found else ""


def title_of(prompt: str) -> str:
    words = question_in(prompt).split()
    return " ".join(words[:TITLE_WORDS]) or "New chat"


@dataclass(frozen=True, slots=True)
class Task:
    """prompt: finds its prompt, of a user or (with system) of the system. answer: what is said to it."""

    name: str
    prompt: re.Pattern[str]
    answer: Callable[[str], str]
    system: bool = False


def open_webui(key: str) -> re.Pattern[str]:
    """Its prompts are alike, but for the key of the JSON that they ask for."""
    return re.compile(r'\A### Task:\n.*\{\s*"' + key + r'":', re.DOTALL)


def beginning(words: str) -> re.Pattern[str]:
    return re.compile(r"\A\s*" + words)


TASKS = (
    Task("title_generation", open_webui("title"), lambda prompt: as_json("title", title_of(prompt))),
    Task("tags_generation", open_webui("tags"), lambda _: as_json("tags", ["General"])),
    Task("follow_up_generation", open_webui("follow_ups"), lambda _: as_json("follow_ups", [])),
    Task("query_generation", open_webui("queries"), lambda _: as_json("queries", [])),
    Task("image_prompt_generation", open_webui("prompt"), lambda prompt: as_json("prompt", question_in(prompt))),
    Task("autocomplete_generation", open_webui("text"), lambda _: as_json("text", "")),
    Task(
        "emoji_generation", beginning("Your task is to reflect the speaker's likely facial expression"), lambda _: "💬"
    ),
    Task("function_calling", beginning("Available Tools:"), lambda _: as_json("tool_calls", []), system=True),
    Task(
        "moa_response_generation",
        beginning("You have been provided with a set of responses from various models"),
        lambda _: "I merge no answers of others.",
    ),
    Task("title", beginning(r"(?:Please generate|Provide) a concise, 5-word-or-less title"), title_of),
    Task(
        "title and language",
        beginning(r"Analyze this conversation and provide:\s+1\. The detected language"),
        lambda prompt: orjson.dumps({"language": "", "title": title_of(prompt)}).decode(),
    ),
)
TASK_NAMES = {task.name for task in TASKS}
UNKNOWN = Task("unknown", beginning("### Task:"), lambda _: NO_QUESTION)


def task_of(named: str, system: str, prompt: str) -> Task | None:
    """Which task a request is; None for a question. named: what it calls itself. system, prompt: what was said last."""
    name = named.strip().lower().removeprefix("tasks.")
    if name and "{{" not in name:  # an Open WebUI that does not know the variable sends it as it is
        return next((task for task in TASKS if task.name == name), UNKNOWN)
    instructions = prompt.partition("<chat_history>")[0]  # what is said in the chat must not decide
    return next(
        (task for task in (*TASKS, UNKNOWN) if task.prompt.search(system if task.system else instructions)), None
    )
