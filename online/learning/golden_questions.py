"""The golden questions of a model, encoded as its log is."""

from online.learning.gate import GoldenQuestion, encode_golden_questions
from online.models import Options, encoder_options
from online.settings import ModelSettings
from online.state.workspace import Workspace


def load_golden_questions(workspace: Workspace, model: ModelSettings, options: Options) -> list[GoldenQuestion]:
    """Return the model's golden questions, encoded. The encoder is loaded only if there are any.

    Raises Unavailable for a tuned encoder that is not here, and that no other replica sends.
    """
    if not model.golden_questions:
        return []
    encoder, max_chars = str(options.get("encoder", "")), workspace.settings.max_text_chars
    text_encoder = workspace.encoders.create(encoder_options(model.kind, options), encoder, 1, max_chars)
    return encode_golden_questions([(each.input, each.answer) for each in model.golden_questions], text_encoder.encode)
