/* The page of reports. `steps`: what the server says that it does, by its own words. */

import { plural } from '../plural';

export const reports = {
  title: 'Reports',
  lead: 'How good is a model? Its whole log is replayed: each answer is scored first, and learned after that.',
  what: 'Reports and replays',
  documentTitle: (name: string) => `Report on ${name}`,
  verdicts: {
    good: 'Good',
    attention: 'Needs attention',
    unclear: 'Too little to tell',
  },
  own: {
    title: (model: string) => `Report on ${model}`,
    empty: (model: string) =>
      `${model} has no feedback yet. A report appears here after the first rating.`,
    made: (until: string, at: string) => `Up to event ${until}, made ${at}.`,
    newer: (count: number, shown: string) =>
      `${shown} new ${plural(count, 'event', 'events')} since then.`,
    show: 'Show',
    make: 'Make the report',
    makeNew: 'Make a new report',
    older: (count: number, shown: string) => `${shown} older ${plural(count, 'report', 'reports')}`,
    upTo: (until: string, at: string) => `Up to event ${until}, ${at}`,
    failed: (reason: string) => `The report could not be made: ${reason}`,
  },
  upload: {
    title: 'Replay a log of your own',
    choose: 'Choose a file',
    drop: 'Drop a log here',
    orDrop: 'or drop it here',
    formats:
      'CSV, Parquet, JSON lines with “input” and “label”, Vowpal Wabbit, or a log exported from a service; also compressed (.gz, .zst).',
    privacy: 'The file is deleted after the replay. Only the report is kept.',
    label: 'Which column should be predicted?',
    guessed: 'This is our guess. Change it if it is wrong.',
    options: 'Options',
    models: 'Models to compare',
    fitting: 'those that fit',
    skip: 'Skip invalid lines, up to 10\u00a0%',
    send: 'Replay',
    another: 'Choose another file',
    sent: (share: string) => `${share} sent`,
    writing: 'Saving the file…',
    progress: (name: string) => `Upload of ${name}`,
    tooLarge: (name: string, size: string, limit: string) =>
      `${name} is ${size}. This service takes logs of at most ${limit}.`,
  },
  /** What the columns of a file are; kinds, treatments and reasons by the words of the service. */
  columns: {
    title: 'Columns that are read',
    note: (rows: number, shown: string) =>
      rows === 1
        ? 'Recognised by the first row. Untick what should not be read.'
        : `Recognised by the first ${shown} rows. Untick what should not be read.`,
    looking: 'Recognising the columns…',
    tooLarge: 'The columns of this file are recognised after the upload.',
    none: 'Tick at least one column: without any, nothing can be predicted.',
    dropped: (kind: string) => `${kind}: not read, as you chose`,
    treated: (kind: string, treatment: string, reason: string) =>
      `${kind}: ${treatment}; ${reason}`,
    textBeside: 'Text: left out beside other columns. To read it, untick all others.',
    kinds: {
      number: 'Number',
      category: 'Category',
      text: 'Text',
      vector: 'Vector',
      date: 'Date',
      identifier: 'Identifier',
      empty: 'Empty',
    },
    treatments: {
      read: 'read as it is',
      left_out: 'left out',
      parsed: 'read as days since 1970, day of the week and hour',
      input: 'this is what is read',
      spread: 'read as a number for each place',
      time: 'the time of each row',
    },
    reasons: {
      no_value: 'it holds no value',
      lists: 'it holds lists of numbers',
      leading_zero: 'one of its numbers begins with 0, so all are texts',
      decimal_commas: 'its numbers have decimal commas',
      grouped_digits: 'commas group the digits of its numbers',
      units: 'numbers with the same unit in every row, read without it',
      numbers: 'it holds numbers',
      mixed: 'it holds texts and numbers',
      truth_values: 'it holds truth values',
      dates: 'it holds dates',
      sentences: 'it holds sentences',
      names: 'it holds names',
      another_word: 'another word in every row',
      counts_rows: 'it counts the rows',
      another_id: 'another number in every row, and called an id',
    },
  },
  preview: {
    title: 'What we recognised',
    table: (format: string, columns: number, rows: string) =>
      `${format} table, ${columns} ${plural(columns, 'column', 'columns')}${rows}.`,
    lines: (rows: string) => `Examples with an input and a label${rows}.`,
    service: (model: string, kind: string, rows: string) =>
      `Log of a service, model ${model} (${kind})${rows}.`,
    text: (format: string, rows: string) => `${format}${rows}.`,
    closed: (format: string) => `${format}. It is read after the upload.`,
    unknown: 'The beginning of this file could not be read here. The service will try.',
    rows: (shown: string) => `, ${shown} rows`,
    aboutRows: (shown: string) => `, about ${shown} rows`,
    firstRows: (count: number) => (count === 1 ? 'The first row' : `The first ${count} rows`),
    isLabel: 'to predict',
    problems: {
      no_label: 'no label',
      too_many_cells: 'too many cells',
      too_few_cells: 'too few cells',
      open_quote: 'quote not closed',
      not_json: 'not a JSON object',
      no_example: 'no input or no label',
    },
    refused: 'Marked rows cannot be used. Correct them, or skip invalid lines under Options.',
    openQuote: 'A quote is not closed, so all that follows it in the file is one cell.',
  },
  list: {
    title: 'Replayed logs',
    none: 'Logs that you replay are listed here.',
    about: (size: string, at: string, models: string) =>
      `${size}, ${at}${models === '' ? '' : `, on ${models}`}`,
    more: (name: string) => `Actions for ${name}`,
    cancel: (name: string) => `Cancel ${name}`,
    cancelled: (name: string) => `Cancelled. Nothing of ${name} was kept.`,
    deleteTitle: (name: string) => `Delete the report on ${name}?`,
    deleteText: 'It is deleted for everybody. The log itself is no longer here.',
  },
  report: {
    of: (model: string, until: string) => `${model}, up to event ${until}`,
    replayOf: (name: string) => `Replay of ${name}`,
    open: 'Open in a new tab',
    openHere: 'Open the report',
    goTo: 'Go to the report',
    copyLink: 'Copy link',
    linkCopied: 'Link copied.',
    download: 'Download',
    soon: 'The report appears here when it is done.',
    language: 'The report is in English.',
    none: 'Choose a report on the left, or drop a log there.',
    making: (model: string) => `The report on ${model} is being made`,
    gone: 'This replay no longer exists. Only the newest are kept.',
    oldGone: (until: string) =>
      `The report up to event ${until} no longer exists. The newest is shown.`,
    done: (name: string) => `The replay of ${name} is done.`,
    ended: (name: string) => `${name} could not be replayed.`,
    whatNext: 'Correct the file, or allow invalid lines in the options, and send it again.',
  },
  /** Why an uploaded log was refused. problems: by the words of the service. */
  refused: {
    empty: 'The file is empty.',
    tooLarge: (limit: string) =>
      `The file is too large. This service takes logs of at most ${limit}.`,
    labelMissing: 'This file is a table. Name the column that should be predicted.',
    columnMissing: (column: string, columns: string) =>
      `The file has no column “${column}”. It has: ${columns}.`,
    line: (line: string | null, problem: string) =>
      line === null ? `A line ${problem}.` : `Line ${line} ${problem}.`,
    moreLines: (count: number, shown: string) =>
      count === 1
        ? 'At least 1 further line cannot be used either.'
        : `At least ${shown} further lines cannot be used either.`,
    problems: {
      not_json: 'is not a JSON object',
      no_example: 'is no example: expected {"input": …, "label": …}',
      too_many_cells: 'has more cells than the first line has columns',
      too_few_cells: 'has fewer cells than the first line has columns',
      open_quote: 'has a quote that is not closed',
      no_label: 'has no label',
      not_vw: 'is not in the format of Vowpal Wabbit: expected “label |features”',
      bad_input: 'has an input that cannot be used',
      bad_header: 'is no header of a log of this service; export the log again',
      no_header: 'is no header; the log begins without one; export it again',
      unknown_line: 'is of a kind that this release does not know',
      wrong_field: 'lacks a field of a log, or has a wrong value in one',
      contradiction: 'contradicts an earlier line, which counts',
      out_of_order: 'has an offset that does not follow the one before it',
      other_log: 'begins another log; send each log by itself',
      cut_off: 'is cut off: the file ends in the middle of it',
      other: 'cannot be used',
    } as Record<string, string>,
    columnTwice: (column: string) =>
      `The file has the column “${column}” more than once. Rename all but one.`,
    columnUnusable: (column: string) =>
      `The column “${column}” holds no numbers, texts, dates or lists of numbers. Leave it out under Columns.`,
    lineTooLong: (limit: string) => `The file has a line of more than ${limit}.`,
    unpacksTooLarge: (limit: string) => `Unpacked, the file has more than ${limit}.`,
    unpacksTooFar: (ratio: string) => `Unpacked, the file is more than ${ratio} times as large.`,
    unreadable:
      'The file cannot be read. It may have another format than its name says, or it is damaged.',
    cutOff: 'The compressed file is incomplete: it ends in the middle.',
    withoutRows: 'The file has no rows.',
    otherRelease: 'The log was exported by another release. Export it again.',
    waiting: (count: string) =>
      plural(
        count,
        'A log is waiting already. Send this one again when it is done.',
        `${count} logs are waiting already. Send this one again when one of them is done.`,
      ),
    uploadCutOff: 'The upload ended early. Nothing of the file was kept.',
  },
  progress: {
    of: (name: string) => `Progress of ${name}`,
    waiting: (ahead: number) =>
      ahead === 0
        ? 'Starts in a moment'
        : `Waiting: ${ahead} ${plural(ahead, 'comes', 'come')} first`,
    events: (done: string, total: string) =>
      `${done} of about ${total} ${plural(total, 'event', 'events')}`,
    perSecond: (speed: string) => `${speed} per second`,
    left: (time: string) => `about ${time} left`,
    estimating: 'estimating the time left…',
    seconds: (count: number) => `${count} ${plural(count, 'second', 'seconds')}`,
    minutes: (count: number) => `${count} min`,
    hours: (hours: number, minutes: number) =>
      minutes === 0 ? `${hours} h` : `${hours} h ${minutes} min`,
    steps: {
      'waiting for its turn': 'Waiting',
      starting: 'Loading what replays the log',
      'reading the log': 'Reading the log and choosing models',
      'writing the log': 'Collecting the events',
      'replaying it': 'Replaying',
      'writing the page': 'Drawing the report',
    } as Record<string, string>,
  },
};
