"""The sentences of a report in English, which the terminal and the JSON of a replay show too."""

from online.evaluation.sources.log_format import EXPIRED

ENGLISH = {
    # the document
    "title": "Replay of {source}",
    "title.model": "Report on {model}, up to event {until:,}",
    "explain": "What does {word} mean?",
    "verdict": "Verdict",
    "level.good": "Good",
    "level.attention": "Needs attention",
    "level.unclear": "Too little to tell",
    "next": "What to do next:",
    "contents": "Contents",
    "glossary": "Glossary",
    "numbers": "The numbers",
    "numbers_of": "The numbers of: {title}",
    "learned_state": "Learned state",
    "subtitle.none": "no model could be replayed",
    "subtitle": "{examples:example|examples} and {events:event|events}, replayed in the order in which they happened",
    "subtitle.interrupted": "interrupted: results so far",
    "unusable": "{count:line|lines} could not be used",
    "repeated": "{count:line|lines} {count:!repeats an earlier one|repeat earlier ones} and {count:!counts|count} once",
    "expired": EXPIRED,
    "left_out.one": "without the column {names}",
    "left_out.many": "without the columns {names}",
    "settings": "replayed with {settings}",
    "sorted": "the rows were not in the order of their times, and were sorted by {column}",
    "settings.of": "{names} replayed with {settings}",
    "and_more": "{names} and {count:,} more",
    # columns of a table that are not read as they are
    "column.left_out": "the column {name} was left out: {reason}",
    "column.parsed": "the column {name} was read as days since 1970, the day of the week and the hour: {reason}",
    "column.input.text": "the column {name} is the text that is read: {reason}",
    "column.input.vector": "the column {name} is the vector that is read: {reason}",
    "column.spread": "the column {name} was read as a number for each place: {reason}",
    "column.time": "the column {name} is the time of each row (--at), and no feature",
    "column.as_written": "the column {name}: {reason}",
    "reason.no_value": "it holds no value",
    "reason.lists": "it holds lists of numbers",
    "reason.leading_zero": "one of its numbers begins with 0, so all are texts",
    "reason.decimal_commas": "its numbers are read with decimal commas",
    "reason.grouped_digits": "the commas in its numbers group their digits",
    "reason.units": "its numbers are read without their unit, which is the same in every row",
    "reason.numbers": "it holds numbers",
    "reason.mixed": "it holds texts and numbers",
    "reason.truth_values": "it holds truth values",
    "reason.dates": "it holds dates",
    "reason.sentences": "it holds sentences",
    "reason.sentences_beside": "it holds sentences, which are not read beside other columns; read it alone with --feature {name}",
    "reason.names": "it holds names",
    "reason.another_word": "it holds another word in every row",
    "reason.counts_rows": "it counts the rows",
    "reason.another_id": "it holds another number in every row, and is called an id",
    "skipped": "no logistic model ran beside it as a baseline: {reason}",
    "skipped.texts": "it reads no texts",
    "skipped.too_large": "its rows have too many columns, or its classes are too many",
    # the page while a report is made
    "making.report": "The report of {model}",
    "making.replay": "The replay of {name}",
    "making": "{title} is in progress",
    "making.progress": "Progress",
    "making.soon": "This page shows it as soon as it is ready.",
    "making.older": "The report up to event {until:,}",
    "making.percent": "{percent} %, {step}",
    "making.ahead.one": ", after {count} other",
    "making.ahead.many": ", after {count} others",
    "making.events": ": {done:,} of {total:event|events}",
    "making.left": ", about {time} left",
    "step.waiting for its turn": "waiting for its turn",
    "step.starting": "starting",
    "step.reading the log": "reading the log",
    "step.writing the log": "writing the log",
    "step.replaying it": "replaying it",
    "step.writing the page": "writing the page",
    # guessers: by themselves; after "ahead of", "behind" and the like; in a warning
    "guesser.majority": "always answering the most frequent class",
    "guesser.no_change": "repeating the last class",
    "guesser.no_change_number": "repeating the last number",
    "guesser.mean": "always answering the mean so far",
    "guesser.logistic": "a simple logistic model",
    "than_guesser.majority": "always answering the most frequent class",
    "than_guesser.majority_named": "always answering “{label}”",
    "than_guesser.no_change": "repeating the last class",
    "than_guesser.no_change_number": "repeating the last number",
    "than_guesser.mean": "always answering the mean so far",
    "than_guesser.logistic": "a simple logistic model",
    "baseline.majority": "a baseline that always answers the most frequent class",
    "baseline.no_change": "a baseline that repeats the last class",
    "baseline.no_change_number": "a baseline that repeats the last number",
    "baseline.mean": "a baseline that answers the mean so far",
    "baseline.logistic": "a logistic model with default options that learned beside it",
    # the verdict
    "failed": "{name} could not be replayed: {failure}.",
    "nothing_judged": "No answer could be judged: the log holds no feedback that says what is right",
    "nothing_replayed": "No model could be replayed",
    "nothing.next": "Check that the log holds labels, corrections or ratings.",
    "best_of": "{name}, the best of {count} models,",
    "answers.one": "{count:,} answer",
    "answers.many": "{count:,} answers",
    "is_off": "{name} is off by {error:.4g} on average in {answers}",
    "is_right": "{name} is right in {share:.1f} % of {answers} (95 % interval {low:.1f} to {high:.1f} %)",
    "better": "{points:.1f} points better than {name} ({share:.1f} %), a difference that chance does not explain",
    "perhaps_better": "{points:.1f} points better than {name} ({share:.1f} %), a difference that chance could explain",
    "as_good": "as good as {name} ({share:.1f} %)",
    "farther": "{name} is off by {error:.4g} and is farther from the truth more often than chance explains",
    "nearer": "{name} is off by {error:.4g} and is nearer to the truth more often than chance explains",
    "as_near": "{name} is off by {error:.4g}, a difference that chance could explain",
    "compared_on.known": "on {count:,} answers, without most of those with a thumb down, ",
    "compared_on.same": " of the same {count:,} answers",
    "ahead": "{before}it is {points:.1f} points ahead of {guesser} ({share:.1f} against {other:.1f} %{basis})",
    "behind": "{before}it is {points:.1f} points behind {guesser} ({share:.1f} against {other:.1f} %{basis})",
    "indistinguishable": "{before}it is statistically indistinguishable from {guesser} ({share:.1f} against {other:.1f} %{basis})",
    "not_comparable": (
        "it is not comparable with a simple baseline here: most known right answers are answers that got a thumb up, "
        "which are right by construction"
    ),
    "by_construction": (
        "In this log most right answers that are known are answers that got a thumb up, so they are right by "
        "construction: the confusion matrix, the classes, the calibration and the probabilities are left out, and kappa and "
        "the distance to the baselines say nothing. The accuracy counts every rating."
    ),
    # warnings
    "warn.interrupted": "The replay was interrupted: these are the results so far.",
    "warn.few": "Only {count:answer|answers} could be judged, which is too few to rely on: use at least {enough}.",
    "warn.none_better": "None of the {count} models is better beyond chance than {guesser} ({share:.1f} %).",
    "warn.none_nearer": (
        "None of the {count} models is nearer to the truth beyond chance than {guesser}, which is off by {error:.4g}."
    ),
    "warn.fell": "The accuracy of {name} fell from {before:.1f} % to {after:.1f} %, beginning at event {event:,}.",
    "warn.fell_now": (
        "The accuracy of {name} fell from {before:.1f} % to {after:.1f} %, beginning at event {event:,}, and is {now:.1f} % now."
    ),
    "warn.came_back": (
        "The accuracy of {name} fell from {before:.1f} % to {after:.1f} % between events {first:,} and {last:,} and came "
        "back: {now:.1f} % since."
    ),
    "warn.few_since": "That rests on only {count:answer|answers}, so look again.",
    "warn.unusable": (
        "{count:line|lines} could not be used, {share:.1f} % of the log: what {count:!it|they} held is not in these figures."
    ),
    "warn.errors": (
        "The code of {name} raised errors, for {answers:answer|answers} and {examples:example|examples}. The first was: {first}"
    ),
    "warn.refused": (
        "{count:example was|examples were} judged and not learned by {name}, {share:.1f} % of all: {reason}."
    ),
    "warn.unanswered": "{name} gave no answer {share:.1f} % of the time.",
    "warn.orphans.one": (
        "{count:,} event was not learned: it names a prediction that does not stand before it in the log, so the state is not "
        "that of the live model. Export the log again."
    ),
    "warn.orphans.many": (
        "{count:,} events were not learned: they name predictions that do not stand before them in the log, so the state is "
        "not that of the live model. Export the log again."
    ),
    "warn.missing.one": (
        "{count:,} event is missing from the log, at offset {first:,}, so the state is not that of the live model. Export the log "
        "again."
    ),
    "warn.missing.many": (
        "{count:,} events are missing from the log, the first at offset {first:,}, so the state is not that of the live model. "
        "Export the log again."
    ),
    "warn.missing_predictions": "{count:prediction|predictions} that the header of the log counts {count:!is|are} missing from it.",
    "warn.outside": (
        "{count:answer|answers} of {model} ({share:.1f} %) lay outside the range of numbers that the model had seen: such a number "
        "counts as the end of its range."
    ),
    "warn.targets_outside": (
        "{count:number|numbers} to predict ({share:.1f} % of what {model} learned) lay outside the range that it holds and "
        "{count:!was|were} cut off."
    ),
    "warn.far_error": ("{model} is far behind {baseline}: mean absolute error {error:.4g} against {other:.4g}."),
    "warn.behind": (
        "{model} is {points:.1f} points behind {baseline}: {share:.1f} against {other:.1f} % of {pairs:,} examples "
        "({low:.1f} to {high:.1f} points, 95 % interval)."
    ),
    "remedy.one": "What has helped on such data: {last}.",
    "remedy.many": "What has helped on such data: {others}, or {last}.",
    # what to do next
    "next.nothing": "Nothing needs to be done: go on collecting feedback, and look at the report again.",
    "next.mend": "Look into what is said above before you rely on these figures.",
    "next.errors": "Correct the code that raised, and replay again: `online replay` prints the first traceback.",
    "next.limit": "Raise the option `{option}` of {name}, and replay again.",
    "next.refused": "See why these examples were not learned before you rely on these figures.",
    "next.collect": "Collect about {count:more judged answer|more judged answers} before you decide anything.",
    "next.other_model": ("Try another kind of model, and check that the inputs say something about the right answers."),
    "next.outside": "Try a model that follows such numbers, and say how large they become if you know it.",
    "next.outside_classes": (
        "Declare how large the numbers become (`scale`) if you know it, or try `knn` or `best_of`, which compare them with the newest."
    ),
    "next.outside_numbers": (
        "Declare how large the numbers become (`scale`, `target_scale`) if you know it, or predict their change in place of them."
    ),
    "next.outside_declared": "Declare a larger {names}, or none: it is then fitted and follows the numbers.",
    "next.look": (
        "Look at what changed around event {event:,}{served}: new questions, another labelling, or wrong feedback."
    ),
    "next.look_back": (
        "Look at what happened between events {first:,} and {last:,}: new questions, another labelling, or wrong feedback."
    ),
    "next.served_answer": " (judged answer {answer:,} on the learning page)",
    "next.alarms": "The drift alarms below say when it was noticed, and in which answers.",
    "next.other_alarms": "The drift alarms below are of other changes.",
    "next.use": "Use {name} instead of {other}.",
    "next.keep": "Keep {name}.",
    "next.keep_for_now": "Keep {name}: no other model is better beyond chance.",
    "next.keep_until": (
        "Keep {name}: no other model is better beyond chance yet; a difference of this size takes about {examples:,} "
        "examples to prove."
    ),
    "next.one_class": (
        "{share:.1f} % of the answers are one class, so accuracy says little: look at the recall of each class "
        "(balanced accuracy {balanced:.1f} %)."
    ),
    "next.mistake": "The most frequent mistake: {mistake}. More examples of both help, or one name for both.",
    "next.mistake_of_two": "The most frequent mistake: {mistake}. More examples of both help.",
    "next.no_answer": "The most frequent mistake: {mistake}. More examples of it help.",
    "next.overconfident": (
        "Do not rely on its probabilities: they are far from how often it is right (see Calibration)."
    ),
    "confused.one": "“{right}” was answered as “{answered}” {count:,} time, {share:.0f} % of its examples",
    "confused.many": "“{right}” was answered as “{answered}” {count:,} times, {share:.0f} % of its examples",
    "unanswered.one": "“{right}” got no answer {count:,} time, {share:.0f} % of its examples",
    "unanswered.many": "“{right}” got no answer {count:,} times, {share:.0f} % of its examples",
    # the figures at the top
    "key.error": "Mean error",
    "key.r2": "R²",
    "key.r2_note": "1 is perfect",
    "key.accuracy": "Accuracy",
    "key.accuracy_note": "{name}, {low:.1%} to {high:.1%}",
    "key.windowed": "Last {count:,}",
    "key.windowed_note": "how good it is now",
    "key.guesser": "Best simple baseline",
    "key.not_comparable": "not comparable: a thumb up makes the given answer the known right one",
    "key.judged": "Judged answers",
    "key.judged_note": "{events:event|events}",
    # which answers a figure is of
    "basis.judged.one": "of {count:,} judged answer",
    "basis.judged.many": "of {count:,} judged answers",
    "basis.known": "of {count:,} of the {judged:,} judged answers, without wrong ones with only a thumb down",
    "basis.some": "of {count:,} of the {judged:,} judged answers",
    "basis.beside": "of {count:,} of the {judged:,} judged answers; {name} has {figure} there",
    "basis.beside_known": (
        "of {count:,} of the {judged:,} judged answers, without most with a thumb down; {name} has {figure} there"
    ),
    "basis.newest": "of the newest {count:,} judged answers",
    "basis.served": "of {count:rated answer that was|rated answers that were} served",
    "basis.short": "of {count:,}",
    # tables
    "table.overall": "Overall",
    "table.probabilities": "Probabilities",
    "table.tasks": "Tasks",
    "table.tasks_note": "Accuracy on the held-out fifth of each task.",
    "known_only": (
        "The accuracy counts all {judged:,} judged answers. Kappa, the distance to the baselines, the confusion matrix, the "
        "classes and the probabilities count only those of which the right one is known. {missing:,} answers that got only a "
        "thumb down, and so were wrong, are missing there, so these figures look better than the model is."
    ),
    "table.classes": "Classes ({name})",
    "table.alarms": "Drift alarms",
    "table.most_frequent": "The {count} most frequent of {total:,}.",
    "table.first": "The first {count} of {total:,}.",
    "table.alarms_note": "The change of inputs is that of their mean along a direction.",
    "column.predictor": "predictor",
    "column.answers": "answers",
    "column.accuracy": "accuracy",
    "column.windowed_accuracy": "last 1,000",
    "column.fading_accuracy": "fading accuracy",
    "column.kappa": "kappa",
    "column.kappa_temporal": "temporal kappa",
    "column.log_loss": "log-loss",
    "column.brier": "Brier score",
    "column.ece": "calibration error",
    "column.average_accuracy": "average",
    "column.forgetting": "forgetting",
    "column.backward_transfer": "backward",
    "column.forward_transfer": "forward",
    "column.average_anytime_accuracy": "anytime",
    "column.least_accuracy": "least",
    "column.mae": "MAE",
    "column.rmse": "RMSE",
    "column.r2": "R²",
    "column.covered": "in interval",
    "column.class": "class",
    "column.examples": "examples",
    "column.recall": "recall",
    "column.precision": "precision",
    "column.model": "model",
    "column.at_event": "noticed at event",
    "column.since": "began at event",
    "column.what": "what changed",
    "column.where": "where",
    "column.change": "change",
    "row.served": "as served",
    "row.frozen": "frozen",
    "row.no_change": "no change",
    "row.majority": "majority",
    "row.logistic": "logistic baseline",
    "row.mean": "mean",
    "alarm.wrong": "wrong answers",
    "alarm.far": "answers far from the true number",
    "alarm.features": "inputs",
    "alarm.in.loss": "all answers",
    "alarm.in.class": "those about “{label}”",
    "alarm.in.features": "direction {number}",
    # notes of the tables
    "compared.nothing": "{name}: nothing to compare with {champion}",
    "compared.better": "better",
    "compared.worse": "worse",
    "compared.undecided": "undecided",
    "compared": (
        "{name} is {verdict} against {champion}: {points:+.2f} points "
        "({low:+.2f} to {high:+.2f} 95 % interval, valid at every moment)"
    ),
    "compared.decided": (
        "{name} is {verdict} against {champion}: {points:+.2f} points "
        "({low:+.2f} to {high:+.2f} 95 % interval, valid at every moment, decided after {count:,})"
    ),
    "same_answers": "{name} gave {same:,} of {asked:,} answers as they were served.",
    "users": "{count:user|users} gave feedback; the most active gave {share:.0%} of it.",
    # matrices
    "confusion": "Confusion matrix ({name})",
    "confusion.across": "answered",
    "confusion.down": "right class",
    "confusion.others": "other classes",
    "confusion.no_answer": "no answer",
    "confusion.points": "Confused most often",
    "confusion.all": "All classes.",
    "confusion.some": "The {count} most frequent of {total:,} classes.",
    "confusion.caption": (
        "A cell counts how often a class (row) got an answer (column); its shade is the share of the row."
    ),
    "cell.no_answer": "“{name}” got no answer: {count:,} of {total:,} ({share:.1f} %)",
    "cell.other": "“{name}” answered as another class: {count:,} of {total:,} ({share:.1f} %)",
    "cell.answered": "“{name}” answered as “{answer}”: {count:,} of {total:,} ({share:.1f} %)",
    "forgetting": "Forgetting ({name})",
    "forgetting.across": "tested on",
    "forgetting.down": "after learning",
    "forgetting.cell": "on {task} after {name}: {share:.1%}",
    "forgetting.caption": (
        "Accuracy in percent, on the held-out rows of each task. A column that gets paler downwards shows a task that is "
        "being forgotten."
    ),
    # plots
    "plot.learning": "Learning curve",
    "plot.learning_caption": "Each point is the mean over a stretch of {width:example|examples}.",
    "plot.bands": "Bands are 95 % intervals (Wilson).",
    "plot.band_of_best": "The band around {name} is its 95 % interval (Wilson). Point at the plot to read its figures.",
    "plot.until": "up to example {until:,}",
    "plot.ticks": "Ticks at the bottom are drift alarms.",
    "plot.examples": "examples",
    "plot.error": "mean absolute error",
    "plot.accuracy": "accuracy",
    "plot.model": "model",
    "plot.versions": "Versions",
    "plot.versions_caption": (
        "Accuracy of the served answers, by version; neighbouring versions are grouped if there are many."
    ),
    "plot.version": "version",
    "plot.from_version": "from version",
    "plot.rated": "rated",
    "plot.calibration": "Calibration",
    "plot.calibration_caption": (
        "On the diagonal, predicted probabilities match accuracy; below it the model is overconfident."
    ),
    "plot.perfect": "perfect",
    "plot.chance": "predicted probability of the answer",
    "plot.probability": "probability",
    "plot.feedback": "Feedback",
    "plot.feedback_caption": "Feedback received per {unit}.",
    "plot.feedback_per": "feedback per {unit}",
    "plot.time": "time",
    "plot.received": "received",
    "unit.second": "second",
    "unit.minute": "minute",
    "unit.hour": "hour",
    "unit.day": "day",
    "unit.week": "week",
    "unit.month": "30 days",
    "plot.freshness": "Freshness",
    "plot.freshness_caption": ("Time from the acknowledgement of feedback to the first version that has learned it."),
    "plot.mean_time": "mean time",
    "plot.mean_in": "{unit}, mean",
    "plot.predicted": "Predicted against true ({name})",
    "plot.predicted_caption": ("Each point is an answer ({kept}); on the dotted line a prediction equals the truth."),
    "plot.kept_some": "one of every {every:,} answers, {count:,} in all",
    "plot.kept_all": "all {count:,} answers",
    "plot.true": "true number",
    "plot.predicted_number": "predicted number",
    "plot.mean_true": "mean true",
    "plot.mean_predicted": "mean predicted",
    "plot.range": "{low:.4g} to {high:.4g}",
    "plot.errors": "Errors ({name})",
    "plot.errors_caption": (
        "Errors of {kept}. Dotted: 0. Dashed: the median, {median:.3g}. The outer bars also hold the 1 % of larger errors "
        "on each side; the largest is {largest:.4g}."
    ),
    "plot.error_column": "predicted minus true",
    "plot.answers": "answers",
}
