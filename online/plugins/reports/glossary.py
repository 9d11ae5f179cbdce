"""Explains the words of a report, in each language: beside each figure, and together at its end."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from online.evaluation.words import LanguageWords
from online.schemas.fields import Language

ENGLISH_GLOSSARY = {
    # term: (word, explanation)
    "accuracy": ("Accuracy", "The share of judged answers that were right. Each answer is given before its feedback is learned, so the model cannot have seen it."),
    "interval": ("95 % interval", "The range that holds the true value in 95 of 100 such measurements. The more answers, the narrower it is. Figures whose ranges overlap widely may differ by chance."),
    "windowed_accuracy": ("Last 1,000", "The accuracy of the newest 1,000 judged answers. After a change among them, it mixes the answers before and after it."),
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
    "no_change": ("No change", "The baseline that repeats the last right class, or number. It does not look at the input."),
    "majority": ("Majority", "The baseline that always answers the most frequent class so far. It does not look at the input."),
    "logistic": ("Logistic", "A simple model with default options that learned beside yours. A good model should not be behind it."),
    "mean": ("Mean", "The baseline that always answers the mean of the numbers so far. It does not look at the input."),
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
    "feedback": ("Feedback received", "How many labels, corrections and ratings arrived."),
    "freshness": ("Freshness", "The time from the moment feedback was acknowledged to the first version that has learned it."),
    "drift": ("Drift alarm", "A place where the answers became worse, or the inputs changed, by more than chance explains. Offsets count the events of the log."),
    "state": ("Learned state", "A checksum of everything the model has learned. The same log and model give the same one, on every machine."),
}  # fmt: skip

GERMAN_GLOSSARY = {
    # term: (word, explanation)
    "accuracy": ("Trefferquote", "Der Anteil der beurteilten Antworten, die richtig waren. Jede Antwort wird gegeben, bevor ihr Feedback gelernt wird; das Modell kann es also nicht gekannt haben."),
    "interval": ("95-%-Intervall", "Der Bereich, der den wahren Wert in 95 von 100 solchen Messungen enthält. Je mehr Antworten, desto schmaler ist er. Zahlen, deren Bereiche sich weit überschneiden, können sich zufällig unterscheiden."),
    "windowed_accuracy": ("Letzte 1.000", "Die Trefferquote der neuesten 1.000 beurteilten Antworten. Nach einer Änderung unter ihnen mischt sie die Antworten davor und danach."),
    "fading_accuracy": ("Gewichtete Trefferquote", "Die Trefferquote, in der eine ältere Antwort weniger zählt: jede 0,1 % weniger als die nächste."),
    "kappa": ("Kappa", "Die Übereinstimmung mit den richtigen Antworten über das hinaus, was Raten mit denselben Häufigkeiten erreicht (Cohen). 0 ist nicht besser als solches Raten, 1 ist perfekt."),
    "kappa_temporal": ("Zeitliches Kappa", "Der Gewinn gegenüber dem Wiederholen der letzten Klasse. 0 ist so gut wie Wiederholen, 1 ist perfekt, unter 0 ist schlechter."),
    "judged": ("Beurteilte Antworten", "Antworten, über die Feedback etwas sagt: ein Label, eine Korrektur oder eine Bewertung. Nur diese werden gezählt."),
    "log_loss": ("Log-Loss", "Wie sehr die richtige Klasse die Wahrscheinlichkeiten des Modells überrascht, in Nat. Kleiner ist besser; 0 ist sicher und richtig."),
    "brier": ("Brier-Score", "Der quadrierte Abstand der Wahrscheinlichkeiten aller Klassen von der Wahrheit. Kleiner ist besser; 0 ist perfekt."),
    "ece": ("ECE", "Der erwartete Kalibrierungsfehler: wie weit die vorhergesagte Wahrscheinlichkeit im Mittel vom Anteil der richtigen Antworten entfernt ist, über 15 gleich breite Bereiche. 0,05 heißt fünf Punkte daneben."),
    "recall": ("Recall", "Der Anteil der Beispiele einer Klasse, die als diese Klasse erkannt wurden."),
    "precision": ("Precision", "Der Anteil der richtigen unter den Antworten, die diese Klasse nannten."),
    "confusion": ("Verwechslungsmatrix", "Eine Zeile für jede richtige Klasse, eine Spalte für jede Antwort. Auf der Diagonale stehen die richtigen Antworten. Je kräftiger eine Zelle, desto größer ihr Anteil an der Zeile."),
    "calibration": ("Kalibrierung", "Ob eine Wahrscheinlichkeit beim Wort genommen werden kann: Von den Antworten mit 80 % sollten 80 % richtig sein. Unter der Diagonale ist das Modell zu sicher."),
    "learning": ("Lernkurve", "Die Zahl entlang des Logs. Jeder Punkt ist das Mittel eines Abschnitts von Beispielen; er zeigt also, wie gut das Modell damals war, nicht seit Beginn."),
    "served": ("Damals gegeben", "Die Antworten, die der Dienst damals gab, wie das Log sie enthält."),
    "frozen": ("Eingefroren", "Eine Kopie des Modells, die aufhörte zu lernen, als das Zählen begann. Der Abstand zu ihr ist, was das Weiterlernen gebracht hat."),
    "no_change": ("Wie zuletzt", "Die einfache Regel, die letzte richtige Klasse oder Zahl zu wiederholen. Sie beachtet die Eingabe nicht."),
    "majority": ("Das Häufigste", "Die einfache Regel, immer die bisher häufigste Klasse zu nennen. Sie beachtet die Eingabe nicht."),
    "logistic": ("Logistisch", "Ein einfaches Modell mit Standardoptionen, das neben Ihrem mitlernte. Ein gutes Modell sollte nicht dahinter liegen."),
    "mean": ("Mittelwert", "Die einfache Regel, immer den Mittelwert der bisherigen Zahlen zu nennen. Sie beachtet die Eingabe nicht."),
    "mae": ("MAE", "Mittlerer absoluter Fehler: wie weit die vorhergesagte Zahl im Mittel von der wahren entfernt ist, in der Einheit der Zahl."),
    "rmse": ("RMSE", "Wurzel des mittleren quadrierten Fehlers. Anders als beim MAE wiegen große Fehler schwerer; ist er viel größer als der MAE, sind einige Antworten sehr falsch."),
    "r2": ("R²", "Der Anteil der Schwankung der Zahlen, den das Modell erklärt. 1 ist perfekt, 0 ist nicht besser als ihr Mittelwert."),
    "covered": ("Im Intervall", "Der Anteil der wahren Zahlen in dem Intervall, das das Modell mit seiner Vorhersage gab."),
    "residuals": ("Abweichung", "Die vorhergesagte Zahl minus die wahre. Ein Histogramm, dessen Mitte nicht bei 0 liegt, zeigt ein Modell, das durchweg zu hoch oder zu niedrig liegt."),
    "predicted": ("Vorhergesagt und wahr", "Auf der Diagonale gleicht die Vorhersage der Wahrheit. Eine Wolke, die flacher als die Diagonale ist, zeigt ein Modell, das äußerste Zahlen meidet."),
    "average_accuracy": ("Mittel (Aufgaben)", "Die mittlere Trefferquote auf den zurückgehaltenen Zeilen aller Aufgaben, nach der letzten Aufgabe."),
    "forgetting": ("Vergessen", "Wie viel Trefferquote einer Aufgabe seit ihrem besten Stand verloren ging, im Mittel. 0 heißt: nichts vergessen."),
    "backward_transfer": ("Rückwärtswirkung", "Wie sich die Trefferquote einer Aufgabe veränderte, seit sie gelernt wurde. Über 0 halfen spätere Aufgaben den früheren."),
    "forward_transfer": ("Vorwärtswirkung", "Die Trefferquote einer Aufgabe, bevor sie gelernt wurde."),
    "average_anytime_accuracy": ("Trefferquote jederzeit", "Das Mittel aller Prüfungen entlang des Logs, nicht nur der letzten."),
    "least_accuracy": ("Kleinste Trefferquote", "Die niedrigste Trefferquote einer Aufgabe, nachdem eine spätere begonnen hatte."),
    "tasks": ("Zurückgehaltene Aufgaben", "Ein Fünftel der Zeilen jeder Aufgabe wird nie gelernt und dient der Prüfung. Eine Spalte, die nach unten blasser wird, zeigt eine Aufgabe, die vergessen wird."),
    "versions": ("Version", "Der Stand eines Modells, der antwortete: Ein Dienst veröffentlicht einen neuen, während er lernt."),
    "feedback": ("Eingegangenes Feedback", "Wie viele Labels, Korrekturen und Bewertungen eingingen."),
    "freshness": ("Frische", "Die Zeit von der Bestätigung eines Feedbacks bis zur ersten Version, die es gelernt hat."),
    "drift": ("Drift-Alarm", "Eine Stelle, an der die Antworten schlechter wurden oder die Eingaben sich veränderten, mehr als der Zufall erklärt. Die Nummern zählen die Ereignisse des Logs."),
    "state": ("Gelernter Zustand", "Eine Prüfsumme über alles, was das Modell gelernt hat. Dasselbe Log und Modell ergeben dieselbe, auf jeder Maschine."),
}  # fmt: skip

GLOSSARIES: Mapping[Language, Mapping[str, tuple[str, str]]] = {  # term: (word, explanation)
    "en": ENGLISH_GLOSSARY,
    "de": GERMAN_GLOSSARY,
}


@dataclass(slots=True)
class ReportGlossary:
    """The terms that a page explains, in the order of their first use. count: buttons on the page, whose ids are unique."""

    words: LanguageWords
    used: dict[str, None] = field(default_factory=dict)
    count: int = 0

    def use(self, term: str) -> tuple[str, str, str]:
        """Return an id for the button, the word and its explanation."""
        self.used[term] = None
        self.count += 1
        return f"help-{self.count}", *GLOSSARIES[self.words.language][term]

    def entries(self) -> list[tuple[str, str]]:
        """Return the terms that the report has used, with their explanations, sorted."""
        return sorted((GLOSSARIES[self.words.language][term] for term in self.used), key=lambda entry: entry[0].lower())
