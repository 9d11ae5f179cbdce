"""The messages of a stored conversation, as a language model reads them: questions, replies that people wrote, and generated answers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from online.plugins.router.answer_texts import AnswerTextRow, load_answer_texts
from online.schemas.json_values import JSONObject
from online.store.conversations.conversations import load_turns
from online.store.conversations.turns import TURNS, extract_question, find_parents, trace_branch
from online.store.database.values import NO_TEXT

MAX_TURNS = 40  # the newest


def load_messages(connection: Connection, model: str, id: str, question: object) -> list[JSONObject]:
    """Return the messages up to a question, without those whose text was erased.

    id: of the question's prediction. question: its instance.
    """
    place = select(TURNS.c.conversation).where(TURNS.c.model == model, TURNS.c.prediction_id == id)
    conversation = connection.scalar(place)
    turns = load_turns(connection, model, conversation) if conversation else []
    by_id = {turn["id"]: turn for turn in turns if turn["input"] != NO_TEXT}
    branch = [each for each in trace_branch(find_parents(turns), id) if each != id and each in by_id][-MAX_TURNS:]
    answers = {row.question_id: row for row in load_answer_texts(connection, branch)}  # the newest of each
    messages = [message for each in branch for message in describe_turn(by_id[each], answers.get(each))]
    return [*messages, {"role": "user", "content": str(extract_question(question))}]


def describe_turn(turn: Mapping[str, Any], generated: AnswerTextRow | None) -> Sequence[JSONObject]:
    """Return the question of a turn and, if it has one, its answer."""
    question = {"role": "user", "content": str(extract_question(json.loads(turn["input"])))}
    reply = generated.text if generated else turn["texts"].get(turn["choice"] or "", "")
    return [question, {"role": "assistant", "content": reply}] if reply else [question]
