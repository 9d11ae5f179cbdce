"""Explains the words of a report: beside each figure, and together at its end."""

from dataclasses import dataclass, field

GLOSSARY = {
    # term: (word, explanation)
    "accuracy": ("Accuracy", "The share of judged answers that were right. Each answer is given before its feedback is learned, so the model cannot have seen it."),
    "interval": ("95 % interval", "The range that holds the true value in 95 of 100 such measurements. The more answers, the narrower it is. Figures whose ranges overlap widely may differ by chance."),
    "windowed_accuracy": ("Last 1,000", "The accuracy of the newest 1,000 judged answers: how good the model is now, whatever it was at the beginning."),
    "fading_accuracy": ("Fading accuracy", "The accuracy in which an older answer counts less: each counts 0.1 % less than the one after it."),
    "kappa": ("Kappa", "Agreement with the right answers beyond what guessing with the same frequencies would reach (Cohen). 0 is no better than such guessing, 1 is perfect."),
    "kappa_temporal": ("Temporal kappa", "The gain over repeating the last class. 0 is as good as repeating, 1 is perfect, below 0 is worse."),
    "judged": ("Judged answers", "Answers that feedback says something about: a label, a correction or a rating. Only these are counted."),
    "log_loss": ("Log-loss", "How surprised the model's probabilities are by the right class, in nats. Smaller is better; 0 is certain and right."),
    "brier": ("Brier score", "The squared distance of the probabilities of all classes from the truth. Smaller is better; 0 is perfect."),
    "ece": ("Calibration error", "How far, on average, the predicted probability is from the share that was right, over 15 bins of equal width. 0.05 means five points off."),
    "recall": ("Recall", "Of the examples of a class, the share that was recognised as that class."),
    "precision": ("Precision", "Of the answers that named a class, the share that was right."),
    "confusion": ("Confusion matrix", "A row for each right class, a column for each answer. The diagonal holds the right answers. A shade shows which share of the row a cell is."),
    "calibration": ("Calibration", "Whether a probability can be taken at its word: of the answers given with 80 %, 80 % should be right. Below the diagonal the model is too sure."),
    "learning": ("Learning curve", "The figure along the log. Each point is the mean of a stretch of examples, so it shows how the model did then, not since the beginning."),
    "served": ("As served", "The answers that the service gave at the time, as the log holds them."),
    "frozen": ("Frozen", "A copy of the model that stopped learning where scoring began. The distance to it is what learning on has brought."),
    "no_change": ("No change", "A guesser that says the last right class, or number, again. It knows no input."),
    "majority": ("Majority", "A guesser that always says the most frequent class so far. It knows no input."),
    "logistic": ("Logistic", "A simple model with default options that learned beside yours. A good model should not be behind it."),
    "mean": ("Mean", "A guesser that always says the mean of the numbers so far. It knows no input."),
    "mae": ("MAE", "Mean absolute error: how far the predicted number is from the true one, on average, in the unit of the number."),
    "rmse": ("RMSE", "Root of the mean squared error. Unlike MAE, it weighs large errors more; much larger than MAE means that a few are very wrong."),
    "r2": ("R²", "The share of the variation of the numbers that the model explains. 1 is perfect, 0 is no better than their mean."),
    "covered": ("In interval", "The share of true numbers inside the interval that the model gave with its prediction."),
    "residuals": ("Residual", "The predicted number minus the true one. A histogram that is not centred on 0 shows a model that is too high or too low throughout."),
    "predicted": ("Predicted against true", "On the diagonal, a prediction equals the truth. A cloud that is flatter than the diagonal shows a model that avoids extreme numbers."),
    "average_accuracy": ("Average (tasks)", "The mean accuracy over the held-out rows of all tasks, after the last task."),
    "forgetting": ("Forgetting", "How much accuracy on a task was lost since its best, on average. 0 is nothing forgotten."),
    "backward_transfer": ("Backward transfer", "How the accuracy on a task changed since it was learned. Above 0, later tasks helped earlier ones."),
    "forward_transfer": ("Forward transfer", "The accuracy on a task before it was learned."),
    "average_anytime_accuracy": ("Anytime accuracy", "The mean of all tests along the log, not only of the last one."),
    "least_accuracy": ("Least accuracy", "The lowest accuracy on a task after a later one had begun."),
    "tasks": ("Held-out tasks", "A fifth of the rows of each task is never learned and is used to test. A column that gets paler downwards shows a task that is being forgotten."),
    "versions": ("Version", "The state of a model that answered: a service publishes a new one as it learns."),
    "feedback": ("Feedback per hour", "How many labels, corrections and ratings arrived."),
    "freshness": ("Freshness", "The time from the moment feedback was acknowledged to the first version that has learned it."),
    "drift": ("Drift alarm", "A place where the answers became worse, or the inputs changed, by more than chance explains. Offsets count the events of the log."),
    "state": ("Learned state", "A checksum of everything the model has learned. The same log and model give the same one, on every machine."),
}  # fmt: skip


@dataclass(slots=True)
class Glossary:
    """The terms that a page explains, in the order of their first use. count: buttons on the page, whose ids are unique."""

    used: dict[str, None] = field(default_factory=dict)
    count: int = 0

    def use(self, term: str) -> tuple[str, str, str]:
        """Return an id for the button, the word and its explanation."""
        self.used[term] = None
        self.count += 1
        return f"help-{self.count}", *GLOSSARY[term]

    def entries(self) -> list[tuple[str, str]]:
        return sorted((GLOSSARY[term] for term in self.used), key=lambda entry: entry[0].lower())
