import type { Messages } from '..';

export const repertoire: Messages['repertoire'] = {
  title: 'Repertoire',
  none: 'Keine Antwort passt.',
  copy: 'Antwort kopieren',
  retire: 'Stilllegen',
  retireTitle: 'Diese Antwort stilllegen?',
  retireText:
    'Niemand bekommt diese Antwort mehr. Was über sie gelernt wurde, bleibt erhalten, und Sie können sie wiederherstellen.',
  retired: 'Antwort stillgelegt',
  dismiss: 'Verwerfen',
  dismissHint:
    'Spam oder nicht unser Thema. Es kommt wieder, wenn fünf weitere Menschen danach fragen.',
};
