import type { Messages } from '..';

export const repertoire: Messages['repertoire'] = {
  title: 'Repertoire',
  dismiss: 'Verwerfen',
  dismissHint:
    'Spam oder nicht unser Thema. Es kommt wieder, wenn fünf weitere Menschen danach fragen.',
};
