"""The sentences of a report in German."""

GERMAN = {
    # the document
    "title": "Auswertung von {source}",
    "title.model": "Bericht über {model}, bis Ereignis {until:,}",
    "explain": "Was bedeutet {word}?",
    "verdict": "Urteil",
    "level.good": "Gut",
    "level.attention": "Braucht Aufmerksamkeit",
    "level.unclear": "Noch nicht zu beurteilen",
    "next": "Was jetzt zu tun ist:",
    "contents": "Inhalt",
    "glossary": "Begriffe",
    "numbers": "Die Zahlen",
    "numbers_of": "Die Zahlen zu: {title}",
    "learned_state": "Gelernter Zustand",
    "subtitle.none": "kein Modell konnte nachgespielt werden",
    "subtitle": "{examples:Beispiel|Beispiele} und {events:Ereignis|Ereignisse}, nachgespielt in der Reihenfolge, in der sie geschahen",
    "subtitle.interrupted": "abgebrochen: Ergebnisse bis dahin",
    "unusable": "{count:Zeile war|Zeilen waren} unbrauchbar",
    "repeated": "{count:Zeile wiederholt eine frühere|Zeilen wiederholen frühere} und {count:!zählt|zählen} einmal",
    "expired": (
        "Inhalte gibt es ab Ereignis {contents_from:,}: die davor sind abgelaufen (event_retention_days), daher lernt sie "
        "hier kein Modell"
    ),
    "left_out.one": "ohne die Spalte {names}",
    "left_out.many": "ohne die Spalten {names}",
    "settings": "nachgespielt mit {settings}",
    "sorted": "die Zeilen standen nicht in der Reihenfolge ihrer Zeiten und wurden nach {column} sortiert",
    "settings.of": "{names} nachgespielt mit {settings}",
    "and_more": "{names} und {count:,} weitere",
    # Spalten einer Tabelle, die nicht so gelesen werden, wie sie sind
    "column.left_out": "die Spalte {name} wurde ausgelassen: {reason}",
    "column.parsed": "die Spalte {name} wurde als Tage seit 1970, Wochentag und Stunde gelesen: {reason}",
    "column.input.text": "die Spalte {name} ist der Text, der gelesen wird: {reason}",
    "column.input.vector": "die Spalte {name} ist der Vektor, der gelesen wird: {reason}",
    "column.spread": "die Spalte {name} wurde als eine Zahl für jeden Platz gelesen: {reason}",
    "column.time": "die Spalte {name} ist die Zeit jeder Zeile (--at) und kein Merkmal",
    "column.as_written": "die Spalte {name}: {reason}",
    "reason.no_value": "sie enthält keinen Wert",
    "reason.lists": "sie enthält Listen von Zahlen",
    "reason.leading_zero": "eine ihrer Zahlen beginnt mit 0, deshalb sind alle Texte",
    "reason.decimal_commas": "ihre Zahlen werden mit Dezimalkomma gelesen",
    "reason.grouped_digits": "die Kommas in ihren Zahlen gliedern die Ziffern",
    "reason.units": "ihre Zahlen werden ohne die Einheit gelesen, die in jeder Zeile dieselbe ist",
    "reason.numbers": "sie enthält Zahlen",
    "reason.mixed": "sie enthält Texte und Zahlen",
    "reason.truth_values": "sie enthält Wahrheitswerte",
    "reason.dates": "sie enthält Datumsangaben",
    "reason.sentences": "sie enthält Sätze",
    "reason.sentences_beside": "sie enthält Sätze, die neben anderen Spalten nicht gelesen werden; mit --feature {name} wird sie allein gelesen",
    "reason.names": "sie enthält Namen",
    "reason.another_word": "sie enthält in jeder Zeile ein anderes Wort",
    "reason.counts_rows": "sie zählt die Zeilen",
    "reason.another_id": "sie enthält in jeder Zeile eine andere Zahl und heißt wie eine Kennung",
    "skipped": "kein logistisches Modell lernte zum Vergleich mit: {reason}",
    "skipped.texts": "es liest keine Texte",
    "skipped.too_large": "die Zeilen haben zu viele Spalten, oder es gibt zu viele Klassen",
    # the page while a report is made
    "making.report": "Der Bericht über {model}",
    "making.replay": "Die Auswertung von {name}",
    "making": "{title} wird erstellt",
    "making.progress": "Fortschritt",
    "making.soon": "Diese Seite zeigt das Ergebnis, sobald es fertig ist.",
    "making.older": "Der Bericht bis Ereignis {until:,}",
    "making.percent": "{percent}\u00a0%, {step}",
    "making.ahead.one": ", {count} andere Auswertung davor",
    "making.ahead.many": ", {count} andere Auswertungen davor",
    "making.events": ": {done:,} von {total:Ereignis|Ereignissen}",
    "making.left": ", noch etwa {time}",
    "step.waiting for its turn": "wartet",
    "step.starting": "startet",
    "step.reading the log": "das Log wird gelesen",
    "step.writing the log": "die Ereignisse werden gesammelt",
    "step.replaying it": "wird nachgespielt",
    "step.writing the page": "der Bericht wird gezeichnet",
    # baselines: by themselves; in the dative; in a warning, in the dative
    "guesser.majority": "die einfache Regel „immer die häufigste Klasse“",
    "guesser.no_change": "die einfache Regel „noch einmal die letzte Klasse“",
    "guesser.no_change_number": "die einfache Regel „noch einmal die letzte Zahl“",
    "guesser.mean": "die einfache Regel „immer der bisherige Mittelwert“",
    "guesser.logistic": "ein einfaches logistisches Modell",
    "than_guesser.majority": "der einfachen Regel „immer die häufigste Klasse“",
    "than_guesser.majority_named": "der einfachen Regel „immer: {label}“",
    "than_guesser.no_change": "der einfachen Regel „noch einmal die letzte Klasse“",
    "than_guesser.no_change_number": "der einfachen Regel „noch einmal die letzte Zahl“",
    "than_guesser.mean": "der einfachen Regel „immer der bisherige Mittelwert“",
    "than_guesser.logistic": "einem einfachen logistischen Modell",
    "baseline.majority": "der einfachen Regel „immer die häufigste Klasse“",
    "baseline.no_change": "der einfachen Regel „noch einmal die letzte Klasse“",
    "baseline.no_change_number": "der einfachen Regel „noch einmal die letzte Zahl“",
    "baseline.mean": "der einfachen Regel „immer der bisherige Mittelwert“",
    "baseline.logistic": "einem logistischen Modell mit Standardoptionen, das zum Vergleich mitlernte",
    # the verdict
    "failed": "{name} konnte nicht nachgespielt werden: {failure}.",
    "nothing_judged": (
        "Keine Antwort konnte beurteilt werden: Das Log enthält keine Rückmeldung, die sagt, was richtig ist"
    ),
    "nothing_replayed": "Kein Modell konnte nachgespielt werden",
    "nothing.next": "Prüfen Sie, ob das Log Labels, Korrekturen oder Bewertungen enthält.",
    "best_of": "{name}, das beste von {count} Modellen,",
    "answers.one": "{count:,} Antwort",
    "answers.many": "{count:,} Antworten",
    "is_off": "{name} liegt im Mittel um {error:.4g} daneben, bei {answers}",
    "is_right": ("{name} liegt bei {share:.1f} % von {answers} richtig (95-%-Intervall: {low:.1f} bis {high:.1f} %)"),
    "better": "{points:.1f} Punkte besser als {name} ({share:.1f} %), ein Unterschied, den der Zufall nicht erklärt",
    "perhaps_better": (
        "{points:.1f} Punkte besser als {name} ({share:.1f} %), ein Unterschied, den der Zufall erklären könnte"
    ),
    "as_good": "so gut wie {name} ({share:.1f} %)",
    "farther": (
        "zum Vergleich {name}: um {error:.4g} daneben und häufiger weiter von der Wahrheit entfernt, als der Zufall erklärt"
    ),
    "nearer": (
        "zum Vergleich {name}: um {error:.4g} daneben und häufiger näher an der Wahrheit, als der Zufall erklärt"
    ),
    "as_near": "zum Vergleich {name}: um {error:.4g} daneben, ein Unterschied, den der Zufall erklären könnte",
    "compared_on.known": "auf {count:,} Antworten, ohne die meisten mit einem Daumen nach unten: ",
    "compared_on.same": " derselben {count:,} Antworten",
    "ahead": "{before}{points:.1f} Punkte Vorsprung vor {guesser} ({share:.1f} gegen {other:.1f} %{basis})",
    "behind": "{before}{points:.1f} Punkte Rückstand hinter {guesser} ({share:.1f} gegen {other:.1f} %{basis})",
    "indistinguishable": "{before}kein sicherer Unterschied zu {guesser} ({share:.1f} gegen {other:.1f} %{basis})",
    "not_comparable": (
        "ein Vergleich mit einer einfachen Regel sagt hier nichts: Die meisten bekannten richtigen Antworten bekamen einen "
        "Daumen nach oben und sind damit von vornherein richtig"
    ),
    "by_construction": (
        "In diesem Log sind die meisten bekannten richtigen Antworten solche, die einen Daumen nach oben bekamen; sie sind also "
        "von vornherein richtig: Verwechslungsmatrix, Klassen, Kalibrierung und Wahrscheinlichkeiten entfallen daher, und "
        "Kappa und der Abstand zu den Vergleichswerten sagen nichts. Die Trefferquote zählt jede Bewertung."
    ),
    # warnings
    "warn.interrupted": "Das Nachspielen wurde abgebrochen: Dies sind die Ergebnisse bis dahin.",
    "warn.few": (
        "Nur {count:Antwort konnte|Antworten konnten} beurteilt werden. Darauf ist kein Verlass: Es sollten mindestens {enough} sein."
    ),
    "warn.none_better": ("Gegenüber {guesser} ({share:.1f} %) ist keines der {count} Modelle nachweislich besser."),
    "warn.none_nearer": (
        "Gegenüber {guesser} (um {error:.4g} daneben) ist keines der {count} Modelle nachweislich näher an der Wahrheit."
    ),
    "warn.fell": "Die Trefferquote von {name} fiel von {before:.1f} % auf {after:.1f} %, beginnend mit Ereignis {event:,}.",
    "warn.fell_now": (
        "Die Trefferquote von {name} fiel von {before:.1f} % auf {after:.1f} %, beginnend mit Ereignis {event:,}, und liegt "
        "jetzt bei {now:.1f} %."
    ),
    "warn.came_back": (
        "Die Trefferquote von {name} fiel zwischen den Ereignissen {first:,} und {last:,} von {before:.1f} % auf "
        "{after:.1f} % und erholte sich: seitdem {now:.1f} %."
    ),
    "warn.few_since": "Das beruht auf nur {count:Antwort|Antworten}; sehen Sie also wieder nach.",
    "warn.unusable": (
        "{count:Zeile war|Zeilen waren} unbrauchbar, {share:.1f} % des Logs: Ihr Inhalt ist in diesen Zahlen nicht enthalten."
    ),
    "warn.errors": (
        "Der Code von {name} hat Fehler ausgelöst, bei {answers:Antwort|Antworten} und {examples:Beispiel|Beispielen}. Der erste war: {first}"
    ),
    "warn.refused": (
        "{count:Beispiel wurde|Beispiele wurden} beurteilt und von {name} nicht gelernt, {share:.1f} % von allen: {reason}."
    ),
    "warn.unanswered": "{name} hat in {share:.1f} % der Fälle keine Antwort gegeben.",
    "warn.orphans.one": (
        "{count:,} Ereignis wurde nicht gelernt: Es nennt eine Vorhersage, die im Log nicht davor steht; der Zustand ist "
        "also nicht der des laufenden Modells. Exportieren Sie das Log neu."
    ),
    "warn.orphans.many": (
        "{count:,} Ereignisse wurden nicht gelernt: Sie nennen Vorhersagen, die im Log nicht davor stehen; der Zustand ist "
        "also nicht der des laufenden Modells. Exportieren Sie das Log neu."
    ),
    "warn.missing.one": (
        "{count:,} Ereignis fehlt im Log, an der Stelle {first:,}; der Zustand ist also nicht der des laufenden Modells. "
        "Exportieren Sie das Log neu."
    ),
    "warn.missing.many": (
        "{count:,} Ereignisse fehlen im Log, das erste an der Stelle {first:,}; der Zustand ist also nicht der des laufenden "
        "Modells. Exportieren Sie das Log neu."
    ),
    "warn.missing_predictions": "{count:Vorhersage|Vorhersagen}, die der Kopf des Logs zählt, {count:!fehlt|fehlen} darin.",
    "warn.outside": (
        "{count:Antwort|Antworten} von {model} ({share:.1f} %) {count:!lag|lagen} außerhalb des Zahlenbereichs, den das Modell "
        "gesehen hatte: Eine solche Zahl zählt wie das Ende ihres Bereichs."
    ),
    "warn.targets_outside": (
        "{count:vorherzusagende Zahl|vorherzusagende Zahlen} ({share:.1f} % dessen, was {model} lernte) {count:!lag|lagen} außerhalb "
        "des Bereichs, den es fasst, und {count:!wurde|wurden} abgeschnitten."
    ),
    "warn.far_error": (
        "{model} liegt weit hinter {baseline}: mittlerer absoluter Fehler {error:.4g} gegen {other:.4g}."
    ),
    "warn.behind": (
        "{model} liegt {points:.1f} Punkte hinter {baseline}: {share:.1f} gegen {other:.1f} % von {pairs:,} Beispielen "
        "({low:.1f} bis {high:.1f} Punkte, 95-%-Intervall)."
    ),
    "remedy.one": "Was bei solchen Daten geholfen hat: {last}.",
    "remedy.many": "Was bei solchen Daten geholfen hat: {others} oder {last}.",
    # what to do next
    "next.nothing": "Es ist nichts zu tun: Sammeln Sie weiter Rückmeldungen, und sehen Sie später wieder nach.",
    "next.mend": "Gehen Sie dem nach, was oben steht, bevor Sie sich auf diese Zahlen verlassen.",
    "next.errors": (
        "Berichtigen Sie den Code, der die Fehler ausgelöst hat, und spielen Sie das Log noch einmal ab: `online replay` zeigt das erste "
        "Traceback."
    ),
    "next.limit": "Erhöhen Sie die Option `{option}` von {name}, und spielen Sie das Log noch einmal ab.",
    "next.refused": "Sehen Sie nach, warum diese Beispiele nicht gelernt wurden, bevor Sie sich auf diese Zahlen verlassen.",
    "next.collect": "Sammeln Sie etwa {count:weitere beurteilte Antwort|weitere beurteilte Antworten}, bevor Sie etwas entscheiden.",
    "next.other_model": (
        "Versuchen Sie es mit einer anderen Art von Modell, und prüfen Sie, ob die Eingaben etwas über die richtigen "
        "Antworten sagen."
    ),
    "next.outside": (
        "Versuchen Sie ein Modell, das solchen Zahlen folgt, und geben Sie an, wie groß sie werden, wenn Sie es wissen."
    ),
    "next.outside_classes": (
        "Geben Sie an, wie groß die Zahlen werden (`scale`), wenn Sie es wissen, oder versuchen Sie `knn` oder `best_of`, die sie "
        "mit den neuesten vergleichen."
    ),
    "next.outside_numbers": (
        "Geben Sie an, wie groß die Zahlen werden (`scale`, `target_scale`), wenn Sie es wissen, oder sagen Sie ihre Änderung "
        "statt ihrer selbst vorher."
    ),
    "next.outside_declared": (
        "Geben Sie ein größeres {names} an, oder keines: Dann wird es angepasst und folgt den Zahlen."
    ),
    "next.look": (
        "Sehen Sie nach, was sich um Ereignis {event:,}{served} verändert hat: neue Fragen, andere Labels oder falsches Feedback."
    ),
    "next.look_back": (
        "Sehen Sie nach, was zwischen den Ereignissen {first:,} und {last:,} geschah: neue Fragen, andere Labels oder falsches "
        "Feedback."
    ),
    "next.served_answer": " (beurteilte Antwort {answer:,} auf der Seite „Lernen“)",
    "next.alarms": "Die Drift-Alarme unten sagen, wann es bemerkt wurde und in welchen Antworten.",
    "next.other_alarms": "Die Drift-Alarme unten gehören zu anderen Änderungen.",
    "next.use": "Verwenden Sie {name} statt {other}.",
    "next.keep": "Bleiben Sie bei {name}.",
    "next.keep_for_now": "Bleiben Sie bei {name}: Kein anderes Modell ist nachweislich besser.",
    "next.keep_until": (
        "Bleiben Sie bei {name}: Noch ist kein anderes Modell nachweislich besser; für einen Unterschied dieser Größe braucht "
        "der Nachweis etwa {examples:,} Beispiele."
    ),
    "next.one_class": (
        "{share:.1f} % der Antworten gehören zu einer Klasse, daher sagt die Trefferquote wenig: Achten Sie auf den Recall "
        "jeder Klasse (ausgewogene Trefferquote {balanced:.1f} %)."
    ),
    "next.mistake": "Der häufigste Fehler: {mistake}. Mehr Beispiele für beide helfen, oder ein gemeinsamer Name.",
    "next.mistake_of_two": "Der häufigste Fehler: {mistake}. Mehr Beispiele für beide helfen.",
    "next.no_answer": "Der häufigste Fehler: {mistake}. Mehr Beispiele dafür helfen.",
    "next.overconfident": (
        "Verlassen Sie sich nicht auf die Wahrscheinlichkeiten: Sie weichen weit davon ab, wie oft die Antwort richtig ist "
        "(siehe Kalibrierung)."
    ),
    "confused.one": "„{right}“ wurde {count:,}-mal mit „{answered}“ beantwortet, in {share:.0f} % der Fälle",
    "confused.many": "„{right}“ wurde {count:,}-mal mit „{answered}“ beantwortet, in {share:.0f} % der Fälle",
    "unanswered.one": "„{right}“ bekam {count:,}-mal keine Antwort, in {share:.0f} % der Fälle",
    "unanswered.many": "„{right}“ bekam {count:,}-mal keine Antwort, in {share:.0f} % der Fälle",
    # the figures at the top
    "key.error": "Mittlerer Fehler",
    "key.r2": "R²",
    "key.r2_note": "1 ist perfekt",
    "key.accuracy": "Trefferquote",
    "key.accuracy_note": "{name}, {low:.1%} bis {high:.1%}",
    "key.windowed": "Letzte {count:,}",
    "key.windowed_note": "wie gut das Modell jetzt ist",
    "key.guesser": "Bester Vergleichswert",
    "key.not_comparable": "nicht vergleichbar: Ein Daumen nach oben macht die gegebene Antwort zur bekannten richtigen",
    "key.judged": "Beurteilte Antworten",
    "key.judged_note": "{events:Ereignis|Ereignisse}",
    # which answers a figure is of
    "basis.judged.one": "von {count:,} beurteilten Antwort",
    "basis.judged.many": "von {count:,} beurteilten Antworten",
    "basis.known": "von {count:,} der {judged:,} beurteilten Antworten, ohne falsche mit nur einem Daumen nach unten",
    "basis.some": "von {count:,} der {judged:,} beurteilten Antworten",
    "basis.beside": "von {count:,} der {judged:,} beurteilten Antworten; dort hat {name} {figure}",
    "basis.beside_known": (
        "von {count:,} der {judged:,} beurteilten Antworten, ohne die meisten mit einem Daumen nach unten; dort hat {name} "
        "{figure}"
    ),
    "basis.newest": "von den neuesten {count:,} beurteilten Antworten",
    "basis.served": "von {count:bewerteten Antwort|bewerteten Antworten}, die der Dienst gab",
    "basis.short": "von {count:,}",
    # tables
    "table.overall": "Insgesamt",
    "table.probabilities": "Wahrscheinlichkeiten",
    "table.tasks": "Aufgaben",
    "table.tasks_note": "Trefferquote auf dem zurückgehaltenen Fünftel jeder Aufgabe.",
    "known_only": (
        "Die Trefferquote zählt alle {judged:,} beurteilten Antworten. Kappa, der Abstand zu den Vergleichswerten, "
        "Verwechslungsmatrix, Klassen und Wahrscheinlichkeiten gibt es nur für die, zu denen die richtige Antwort bekannt ist. "
        "Es fehlen {missing:,} Antworten, die nur einen Daumen nach unten bekamen und falsch waren; diese Zahlen sehen also "
        "besser aus, als das Modell ist."
    ),
    "table.classes": "Klassen ({name})",
    "table.alarms": "Drift-Alarme",
    "table.most_frequent": "Die {count} häufigsten von {total:,}.",
    "table.first": "Die ersten {count} von {total:,}.",
    "table.alarms_note": "Die Änderung der Eingaben ist die ihres Mittelwerts in einer Richtung.",
    "column.predictor": "Modell",
    "column.answers": "Antworten",
    "column.accuracy": "Trefferquote",
    "column.windowed_accuracy": "letzte 1.000",
    "column.fading_accuracy": "gewichtete Trefferquote",
    "column.kappa": "Kappa",
    "column.kappa_temporal": "zeitliches Kappa",
    "column.log_loss": "Log-Loss",
    "column.brier": "Brier-Score",
    "column.ece": "ECE",
    "column.average_accuracy": "Mittel",
    "column.forgetting": "Vergessen",
    "column.backward_transfer": "rückwärts",
    "column.forward_transfer": "vorwärts",
    "column.average_anytime_accuracy": "jederzeit",
    "column.least_accuracy": "kleinste",
    "column.mae": "MAE",
    "column.rmse": "RMSE",
    "column.r2": "R²",
    "column.covered": "im Intervall",
    "column.class": "Klasse",
    "column.examples": "Beispiele",
    "column.recall": "Recall",
    "column.precision": "Precision",
    "column.model": "Modell",
    "column.at_event": "bemerkt bei Ereignis",
    "column.since": "begann bei Ereignis",
    "column.what": "was sich verändert hat",
    "column.where": "wo",
    "column.change": "Änderung",
    "row.served": "damals gegeben",
    "row.frozen": "eingefroren",
    "row.no_change": "wie zuletzt",
    "row.majority": "das Häufigste",
    "row.logistic": "logistisch, zum Vergleich",
    "row.mean": "Mittelwert",
    "alarm.wrong": "falsche Antworten",
    "alarm.far": "Antworten weit neben der wahren Zahl",
    "alarm.features": "Eingaben",
    "alarm.in.loss": "alle Antworten",
    "alarm.in.class": "die zu „{label}“",
    "alarm.in.features": "Richtung {number}",
    # notes of the tables
    "compared.nothing": "{name}: nichts mit {champion} zu vergleichen",
    "compared.better": "besser",
    "compared.worse": "schlechter",
    "compared.undecided": "nicht entschieden",
    "compared": (
        "{name} gegen {champion}: {verdict}, {points:+.2f} Punkte "
        "(95-%-Intervall: {low:+.2f} bis {high:+.2f}, jederzeit gültig)"
    ),
    "compared.decided": (
        "{name} gegen {champion}: {verdict}, {points:+.2f} Punkte "
        "(95-%-Intervall: {low:+.2f} bis {high:+.2f}, jederzeit gültig, entschieden nach {count:,})"
    ),
    "same_answers": "{name} gab {same:,} von {asked:,} Antworten genauso wie damals.",
    "users": "{count:Person gab|Personen gaben} Feedback; {share:.0%} davon kam von der aktivsten.",
    # matrices
    "confusion": "Verwechslungsmatrix ({name})",
    "confusion.across": "Antwort",
    "confusion.down": "richtige Klasse",
    "confusion.others": "andere Klassen",
    "confusion.no_answer": "keine Antwort",
    "confusion.points": "Am häufigsten verwechselt",
    "confusion.all": "Alle Klassen.",
    "confusion.some": "Die {count} häufigsten von {total:,} Klassen.",
    "confusion.caption": (
        "Eine Zelle zählt, wie oft eine Klasse (Zeile) eine Antwort (Spalte) bekam; je kräftiger, desto größer der Anteil an "
        "der Zeile."
    ),
    "cell.no_answer": "„{name}“ bekam keine Antwort: {count:,} von {total:,} ({share:.1f} %)",
    "cell.other": "„{name}“ mit einer anderen Klasse beantwortet: {count:,} von {total:,} ({share:.1f} %)",
    "cell.answered": "„{name}“ mit „{answer}“ beantwortet: {count:,} von {total:,} ({share:.1f} %)",
    "forgetting": "Vergessen ({name})",
    "forgetting.across": "geprüft an",
    "forgetting.down": "nach dem Lernen von",
    "forgetting.cell": "an {task} nach {name}: {share:.1%}",
    "forgetting.caption": (
        "Trefferquote in Prozent, auf den zurückgehaltenen Zeilen jeder Aufgabe. Eine Spalte, die nach unten blasser wird, "
        "zeigt eine Aufgabe, die vergessen wird."
    ),
    # plots
    "plot.learning": "Lernkurve",
    "plot.learning_caption": "Jeder Punkt ist das Mittel eines Abschnitts von {width:Beispiel|Beispielen}.",
    "plot.bands": "Die Bänder sind 95-%-Intervalle (Wilson).",
    "plot.band_of_best": "Das Band um {name} ist sein 95-%-Intervall (Wilson). Zeigen Sie auf die Grafik, um die Werte zu lesen.",
    "plot.until": "bis Beispiel {until:,}",
    "plot.ticks": "Striche am unteren Rand sind Drift-Alarme.",
    "plot.examples": "Beispiele",
    "plot.error": "mittlerer absoluter Fehler",
    "plot.accuracy": "Trefferquote",
    "plot.model": "Modell",
    "plot.versions": "Versionen",
    "plot.versions_caption": (
        "Trefferquote der gegebenen Antworten, nach Version; benachbarte Versionen sind zusammengefasst, wenn es viele sind."
    ),
    "plot.version": "Version",
    "plot.from_version": "ab Version",
    "plot.rated": "bewertet",
    "plot.calibration": "Kalibrierung",
    "plot.calibration_caption": (
        "Auf der Diagonale entspricht die Wahrscheinlichkeit der Trefferquote; darunter ist das Modell zu sicher."
    ),
    "plot.perfect": "perfekt",
    "plot.chance": "vorhergesagte Wahrscheinlichkeit der Antwort",
    "plot.probability": "Wahrscheinlichkeit",
    "plot.feedback": "Feedback",
    "plot.feedback_caption": "Feedback pro {unit}.",
    "plot.feedback_per": "Feedback pro {unit}",
    "plot.time": "Zeit",
    "plot.received": "eingegangen",
    "unit.second": "Sekunde",
    "unit.minute": "Minute",
    "unit.hour": "Stunde",
    "unit.day": "Tag",
    "unit.week": "Woche",
    "unit.month": "30 Tage",
    "plot.freshness": "Frische",
    "plot.freshness_caption": ("Zeit von der Bestätigung des Feedbacks bis zur ersten Version, die es gelernt hat."),
    "plot.mean_time": "mittlere Zeit",
    "plot.mean_in": "{unit}, Mittel",
    "plot.predicted": "Vorhergesagt und wahr ({name})",
    "plot.predicted_caption": (
        "Jeder Punkt ist eine Antwort ({kept}); auf der gepunkteten Linie stimmt die Vorhersage mit der Wahrheit überein."
    ),
    "plot.kept_some": "eine von je {every:,} Antworten, insgesamt {count:,}",
    "plot.kept_all": "alle {count:,} Antworten",
    "plot.true": "wahre Zahl",
    "plot.predicted_number": "vorhergesagte Zahl",
    "plot.mean_true": "Mittel der wahren",
    "plot.mean_predicted": "Mittel der vorhergesagten",
    "plot.range": "{low:.4g} bis {high:.4g}",
    "plot.errors": "Fehler ({name})",
    "plot.errors_caption": (
        "Fehler, {kept}. Gepunktet: 0. Gestrichelt: der Median, {median:.3g}. Die äußeren Balken enthalten auch je 1 % noch "
        "größerer Fehler auf jeder Seite; der größte ist {largest:.4g}."
    ),
    "plot.error_column": "vorhergesagt minus wahr",
    "plot.answers": "Antworten",
}
