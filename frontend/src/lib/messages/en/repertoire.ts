import { plural } from '../plural';
const times = (count: number, shown: string) => `${shown} ${plural(count, 'time', 'times')}`;
const examples = (count: number, shown: string) => `${shown} ${plural(count, 'example question', 'example questions')}`;

export const repertoire = {
  title: 'Repertoire',
  lead: 'The replies this model may give. Changes are learned at once and used from then on.',
  noModel: (name: string) => `This service has no model “${name}” with replies.`,
  sections: 'Repertoire sections',
  tabs: { replies: 'Replies', unanswered: 'Unanswered', file: 'Import, export' },
  needs: {
    unanswered: 'Unanswered questions',
    changes: 'Changes of the repertoire',
    reply: 'Changes of a reply',
    teach: 'Replies to these questions',
    exports: 'Exports',
    imports: 'Imports',
  },

  /* The list */
  none: 'No replies match.',
  replies: 'Replies',
  search: 'Search replies and their example questions',
  show: 'Show',
  filters: { all: 'all', given: 'in use', retired: 'retired', never_right: 'never right' },
  neverRightNote: 'Each of these was rated wrong every time. The most rated come first.',
  sort: 'Sort',
  orders: {
    listed: 'As added',
    most_rated: 'Most rated',
    least_right: 'Least right',
    newest: 'Added last',
    by_text: 'A to Z',
  },
  inQuestion: 'found in an example question',
  added: 'added',
  examples,
  notRated: 'not rated yet',
  neverRight: (rated: number, shown: string) => `rated ${times(rated, shown)}, never right`,
  right: (right: string, rated: number, shown: string) => `right ${right} of ${times(rated, shown)}`,
  showMore: (left: string) => `Show more (${left} left)`,

  /* One reply */
  reply: 'Reply',
  all: 'All replies',
  missing: (id: string) => `There is no reply “${id}”. It may have been deleted.`,
  text: 'What the reply says',
  edit: 'Edit',
  copy: 'Copy the reply',
  retire: 'Retire',
  retireTitle: 'Retire this reply?',
  retireText: 'Nobody gets this reply any more. What was learned about it is kept, and you can restore it.',
  retired: 'Reply retired',
  restore: 'Restore',
  isRetired: 'retired: not given',
  questions: 'Example questions',
  addQuestion: 'Add a question that it answers',
  add: 'Add',
  remove: 'Remove',
  removeTitle: 'Remove this question?',
  removeText: (question: string) => [
    `“${question}” is no longer an example of this reply.`,
    'The model un-learns it at once, for everybody.',
  ],
  removed: 'Question removed',
  removeQuestion: (question: string) => `Remove “${question}”`,
  feedback: 'Feedback',
  noFeedback: 'No feedback yet.',
  noFeedbackOfYours: 'No feedback of yours yet.',
  verdict: (right: boolean): string => (right ? 'right' : 'wrong'),
  takeBack: 'Take back',
  takeBackOf: (verdict: string, question: string) => `Take back the rating “${verdict}” of “${question}”`,

  /* A new reply */
  newReply: 'New reply',
  newQuestions: 'Questions it answers, one per line (optional)',
  addReply: 'Add this reply',

  /* What became of a change */
  steps: {
    added: 'added',
    questionAdded: 'question added',
    questionRemoved: 'question removed',
    takenBack: 'taken back',
    retired: 'retired',
    restored: 'restored',
    noLongerGiven: (version: string) => `no longer given since version ${version}`,
    givenAgain: (version: string) => `given again since version ${version}`,
    taught: (count: number, shown: string) => `taught to ${shown} ${plural(count, 'question', 'questions')}`,
    imported: (file: string) => `imported from ${file}`,
  },

  /* Questions without a reply */
  unanswered: 'Questions without a reply',
  unansweredNote: 'Recent questions that still get no reply. Similar questions are grouped.',
  allAnswered: 'Every recent question gets a reply.',
  group: (question: string) => `“${question}” and similar questions`,
  asked: (count: number, shown: string) => (count === 1 ? '' : `${times(count, shown)}, last`),
  showFewer: 'Show fewer',
  showAll: (count: number, shown: string) => `Show all ${shown} ${plural(count, 'question', 'questions')}`,
  taught: (reply: string) => `Reply taught: “${reply}”`,
  whatReply: 'What should the reply be? Write one or search existing replies',
  suggested: 'Suggested replies:',
  found: 'Replies with these words:',
  foundRetired: 'retired; teaching restores it',
  teach: (count: number, shown: string) => (count === 1 ? 'Teach this reply' : `Teach all ${shown} questions`),
  suggestionsWait: (count: number, shown: string) =>
    `${shown} ${plural(count, 'suggestion waits', 'suggestions wait')} in the inbox`,
  giveReply: 'Give a reply',
  dismiss: 'Dismiss',
  dismissHint: 'Spam, or not our topic. It comes back if five more people ask it.',

  /* Files */
  file: {
    export: 'Export',
    exportNote:
      'All replies and their example questions, including retired ones, as a file that can be imported again.',
    exportAs: (format: string) => `Export as ${format}`,
    import: 'Import',
    jsonl: 'JSONL with one reply per line:',
    csv: 'Or CSV or an Excel workbook (.xlsx) with the same columns: the examples are in one cell, one per line.',
    preview: 'Only “text” is required. You see a preview before anything changes.',
    choose: 'Choose a file',
    chooseAnother: 'Choose another file',
    drop: 'Drop a file here',
    orDrop: 'or drop it here',
    checking: (name: string) => `Checking ${name}…`,
    changes: (name: string) => `Changes in ${name}`,
    effects: { new: 'new', changed: 'changed', unchanged: 'unchanged', invalid: 'invalid' },
    sheets: (sheet: string, others: string) => `The sheet “${sheet}” was read. Not read: ${others}.`,
    byLine: 'Changes by line',
    line: 'Line',
    change: 'Change',
    field: (name: string, entry: string | null) => (entry === null ? `“${name}”` : `Entry ${entry} of “${name}”`),
    /* line: its number. where: a field, as above. about: what the service names beside it. */
    problems: {
      not_json: (line: string) => `Line ${line} is not JSON.`,
      not_object: (line: string) => `Line ${line} has to be in curly brackets: {"text": "…"}.`,
      not_csv: (line: string) => `Line ${line} is not CSV: check its quotation marks.`,
      cell_count: (line: string, _: string, about: string) =>
        `Line ${line}: the number of cells has to be ${about}, as in the first line of the file.`,
      formula_without_value: (line: string, _: string, about: string) =>
        `Line ${line}: the formula in cell ${about} was never computed. Open the file in a spreadsheet and save it.`,
      error_value: (line: string, _: string, about: string) => `Line ${line}: cell ${about} shows an error.`,
      number_format: (line: string, _: string, about: string) =>
        `Line ${line}: cell ${about} shows a number in a format that is not read. Make it text.`,
      no_column: (line: string, _: string, about: string) =>
        `Line ${line}: cell ${about} has a value, but its column has no name.`,
      missing: (line: string, where: string) => `Line ${line}: ${where} is missing.`,
      unknown_field: (line: string, where: string) =>
        `Line ${line}: ${where} is not a known field. Known are “id”, “text”, “examples” and “active”.`,
      not_text: (line: string, where: string) => `Line ${line}: ${where} has to be text in quotation marks.`,
      not_list: (line: string, where: string) => `Line ${line}: ${where} has to be a list in square brackets.`,
      not_boolean: (line: string, where: string) => `Line ${line}: ${where} has to be true or false.`,
      not_id: (line: string, where: string) =>
        `Line ${line}: ${where} has to be 1 to 128 characters without “#” and “/”.`,
      not_valid: (line: string, where: string) => `Line ${line}: ${where} has a value that is not possible.`,
      no_text: (line: string, where: string) => `Line ${line}: ${where} is empty.`,
      too_long: (line: string, where: string, about: string) =>
        `Line ${line}: ${where} is too long. At most ${about} characters are possible.`,
      text_taken: (line: string, _: string, about: string) =>
        `Line ${line}: the reply “${about}” has this text already.`,
      second_text: (line: string, _: string, about: string) =>
        `Line ${line}: line ${about} gives the same “id” another text.`,
    },
    shared: (example: string, reply: string, line: string | null) =>
      line === null
        ? `The reply “${reply}” has the example “${example}” already: this line's counts then.`
        : `Line ${line} gives the example “${example}” to the reply “${reply}”: this line's counts then.`,
    sharedCount: (count: number, shown: string) =>
      `${shown} ${plural(count, 'example belongs', 'examples belong')} to two replies. The one that comes last counts.`,
    before: (text: string) => `before: ${text}`,
    newExamples: (count: number, shown: string) =>
      `${shown} ${plural(count, 'new example question', 'new example questions')}`,
    retired: 'retired',
    restored: 'restored',
    firstLines: (shown: string, all: string) => `The first ${shown} of ${all} lines are shown.`,
    skip: (count: number, shown: string) => (count === 1 ? 'Skip the invalid line' : `Skip the ${shown} invalid lines`),
    importLines: (count: number, shown: string) => `Import ${shown} ${plural(count, 'line', 'lines')}`,
  },
};
